package pdfseald;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verifies webhooks (Standard Webhooks 1.0.0). */
public final class Webhooks {
    private static final Duration AGE_MAX = Duration.ofMinutes(5);

    private Webhooks() {}

    /** The webhook is forged, altered or too old: answer 401, and do nothing. */
    public static final class WebhookRefused extends Exception {
        private static final long serialVersionUID = 1;

        WebhookRefused(String message) {
            super(message);
        }
    }

    /**
     * The event: {@code type}, {@code timestamp} and {@code data}. The same event can arrive twice: ignore a {@code webhook-id} that was
     * handled before.
     *
     * @param body the bytes as they arrived
     * @param secrets those of the endpoint: two while one is replaced
     */
    public static Map<String, Object> verify(byte[] body, Map<String, String> headers, List<String> secrets, Instant now)
            throws WebhookRefused {
        Map<String, String> given = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        given.putAll(headers);
        for (String name : List.of("webhook-id", "webhook-timestamp", "webhook-signature"))
            if (given.get(name) == null) throw new WebhookRefused("the header " + name + " is missing");
        String sent = given.get("webhook-timestamp");
        if (!sent.matches("[0-9]{1,12}")
                || Duration.between(Instant.ofEpochSecond(Long.parseLong(sent)), now).abs().compareTo(AGE_MAX) > 0)
            throw new WebhookRefused("the webhook was not sent within the last five minutes");
        String head = given.get("webhook-id") + "." + sent + ".";
        for (String secret : secrets) {
            byte[] expected = mac(secret, head, body);
            for (String signature : given.get("webhook-signature").split(" ")) {
                if (signature.startsWith("v1,") && MessageDigest.isEqual(expected, decoded(signature.substring(3)))) {
                    Map<String, Object> event = Json.parseObject(body);
                    if (event != null) return event;
                }
            }
        }
        throw new WebhookRefused("no signature is of a secret of this endpoint");
    }

    private static byte[] mac(String secret, String head, byte[] body) {
        if (!secret.startsWith("whsec_")) throw new IllegalArgumentException("a webhook secret is whsec_ and Base64");
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.substring(6)), "HmacSHA256"));
            mac.update(head.getBytes(StandardCharsets.UTF_8));
            return mac.doFinal(body);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    private static byte[] decoded(String text) {
        try {
            return Base64.getDecoder().decode(text);
        } catch (IllegalArgumentException error) {
            return new byte[0];
        }
    }
}
