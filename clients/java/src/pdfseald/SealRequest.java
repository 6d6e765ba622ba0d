package pdfseald;

import java.io.FileNotFoundException;
import java.io.UncheckedIOException;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;

/** What to seal, and how. The methods that set a field return a new request. */
public final class SealRequest {
    /** The bytes of the document, or its path; null if the document is not sent. */
    private final Object document;

    private final String path;
    private final String idempotencyKey;
    private final Map<String, Object> fields;

    private SealRequest(String path, Object document, Map<String, Object> fields, String idempotencyKey) {
        this.path = path;
        this.document = document;
        this.fields = fields;
        this.idempotencyKey = idempotencyKey;
    }

    /** @param visibility {@code private}, {@code organization} or {@code partner} */
    public static SealRequest ofDocument(byte[] document, String visibility) {
        return new SealRequest("/forms/seal", document, Map.of("visibility", visibility), null);
    }

    /** The document is never in memory as a whole. */
    public static SealRequest ofDocument(Path document, String visibility) {
        return new SealRequest("/forms/seal", document, Map.of("visibility", visibility), null);
    }

    /** A document at a URL, with its SHA-256 in hexadecimal. */
    public static SealRequest ofSource(String url, String sha256, String visibility) {
        return new SealRequest("/sources/seal", null, Map.of("visibility", visibility), null)
                .with("source_url", url)
                .with("checksum_sha256", sha256);
    }

    /** The digests, in hexadecimal, of a document that stays with you, and its length in bytes. */
    public static SealRequest ofDigests(String sha256, String sha512, long bytes, String visibility) {
        return new SealRequest("/digests/seal", null, Map.of("visibility", visibility), null)
                .with("document_sha256", sha256)
                .with("document_sha512", sha512)
                .with("bytes", bytes);
    }

    /** A field of the API: {@code mode}, {@code purpose}, {@code customer_reference}, {@code sealed_pdf} and so on. */
    public SealRequest with(String field, Object value) {
        Map<String, Object> more = new LinkedHashMap<>(fields);
        more.put(field, value);
        return new SealRequest(path, document, more, idempotencyKey);
    }

    /** 8 to 128 visible ASCII characters, unique for the operation, such as the number of an invoice. A random one is the default. */
    public SealRequest withIdempotencyKey(String key) {
        return new SealRequest(path, document, fields, key);
    }

    SealRequest orMode(String mode) {
        return fields.containsKey("mode") ? this : with("mode", mode);
    }

    String path() {
        return path;
    }

    String idempotencyKey() {
        return idempotencyKey;
    }

    record Body(String contentType, BodyPublisher publisher) {}

    Body body() {
        if (document == null) return new Body("application/json", BodyPublishers.ofString(Json.write(fields)));
        // The fields come before the document: the service must know them before it receives it (RFC 7578).
        String boundary = UUID.randomUUID().toString();
        StringBuilder head = new StringBuilder();
        fields.forEach((name, value) -> head.append("--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n"
                .formatted(boundary, name, value)));
        head.append("--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"document.pdf\"\r\n".formatted(boundary));
        head.append("Content-Type: application/pdf\r\n\r\n");
        BodyPublisher publisher = BodyPublishers.concat(
                BodyPublishers.ofByteArray(head.toString().getBytes(StandardCharsets.UTF_8)),
                documentPublisher(),
                BodyPublishers.ofString("\r\n--%s--\r\n".formatted(boundary)));
        return new Body("multipart/form-data; boundary=" + boundary, publisher);
    }

    private BodyPublisher documentPublisher() {
        if (document instanceof byte[] bytes) return BodyPublishers.ofByteArray(bytes);
        try {
            return BodyPublishers.ofFile((Path) document);
        } catch (FileNotFoundException error) {
            throw new UncheckedIOException(error);
        }
    }
}
