import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import pdfseald.Client;
import pdfseald.Json;
import pdfseald.PdfsealException;
import pdfseald.SealRequest;
import pdfseald.Webhooks;

/** Runs the cases of clients/conformance: one on each line of the input, and its answer on a line of the output. */
public final class Driver {
    private static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<String, Object> answer;
            try {
                answer = Map.of("gives", run(Json.parseObject(line.getBytes(StandardCharsets.UTF_8))));
            } catch (Exception error) {
                answer = Map.of("throws", thrown(error));
            }
            System.out.write((Json.write(answer) + "\n").getBytes(StandardCharsets.UTF_8));
            System.out.flush();
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> run(Map<String, Object> one) throws Exception {
        Map<String, Object> with = (Map<String, Object>) one.get("with");
        Duration patience = Duration.ofSeconds((Long) one.get("patience"));
        Client client = new Client(
                (String) one.get("url"), (String) one.get("api_key"), patience, Duration.ofMinutes(5), HTTP);
        String id = (String) with.get("id");
        switch ((String) one.get("do")) {
            case "create": {
                Client.Created created = client.create(request(with));
                return Map.of("job", created.job().members(), "replayed", created.replayed());
            }
            case "seal": {
                Client.Sealed sealed = client.seal(request(with));
                return Map.of(
                        "job", sealed.job().members(),
                        "receipt", sealed.receipt().members(),
                        "replayed", sealed.replayed());
            }
            case "job":
                return Map.of("job", client.job(id).members());
            case "wait":
                return Map.of("job", client.await(id).members());
            case "receipt": {
                Client.Receipt receipt = client.receipt(id);
                byte[] digest = MessageDigest.getInstance("SHA-256").digest(receipt.bytes());
                return Map.of("receipt", receipt.members(), "sha256", HexFormat.of().formatHex(digest));
            }
            case "sealed_pdf":
                return Map.of("bytes", client.sealedPdf(id).length);
            case "jobs": {
                Map<String, String> filters = new LinkedHashMap<>();
                with.forEach((name, value) -> filters.put(name, value.toString()));
                List<Object> ids = new ArrayList<>();
                client.jobs(filters, job -> ids.add(job.id()));
                return Map.of("ids", ids);
            }
            case "webhook": {
                byte[] body = ((String) with.get("body")).getBytes(StandardCharsets.UTF_8);
                Map<String, String> headers = (Map<String, String>) with.get("headers");
                return Map.of("type", Webhooks.verify(body, headers, (List<String>) with.get("secrets"), Instant.now()).get("type"));
            }
            default:
                throw new IllegalArgumentException("there is no operation " + one.get("do"));
        }
    }

    @SuppressWarnings("unchecked")
    private static SealRequest request(Map<String, Object> with) {
        Map<String, Object> rest = new HashMap<>(with);
        String visibility = (String) rest.remove("visibility");
        Map<String, Object> source = (Map<String, Object>) rest.remove("source");
        Map<String, Object> digests = (Map<String, Object>) rest.remove("digests");
        String document = (String) rest.remove("document");
        String key = (String) rest.remove("idempotency_key");
        SealRequest request = source != null
                ? SealRequest.ofSource((String) source.get("url"), (String) source.get("sha256"), visibility)
                : digests != null
                        ? SealRequest.ofDigests(
                                (String) digests.get("sha256"), (String) digests.get("sha512"), (Long) digests.get("bytes"), visibility)
                        : SealRequest.ofDocument(document.getBytes(StandardCharsets.UTF_8), visibility);
        for (Map.Entry<String, Object> field : rest.entrySet()) request = request.with(field.getKey(), field.getValue());
        return key == null ? request : request.withIdempotencyKey(key);
    }

    private static Map<String, Object> thrown(Exception error) {
        if (error instanceof PdfsealException.Refused refused)
            return Map.of("kind", "refused", "code", refused.code(), "status", refused.status());
        if (error instanceof PdfsealException.JobFailed failed) return Map.of("kind", "job_failed", "code", failed.code());
        if (error instanceof PdfsealException.StillRunning) return Map.of("kind", "still_running");
        if (error instanceof PdfsealException.Unreachable) return Map.of("kind", "unreachable");
        if (error instanceof Webhooks.WebhookRefused) return Map.of("kind", "webhook_refused");
        return Map.of("kind", error.toString());
    }
}
