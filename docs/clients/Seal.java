import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Set;
import java.util.regex.Pattern;

class Seal {
  static final String URL = System.getenv("PDFSEAL_URL");
  static final HttpClient HTTP = HttpClient.newHttpClient();

  static HttpRequest.Builder request(String path) {
    return HttpRequest.newBuilder(URI.create(URL + path)).header("Authorization", "Bearer " + System.getenv("PDFSEAL_API_KEY"));
  }

  /** Answers the body; sends again what may succeed later. */
  static String api(HttpRequest request) throws Exception {
    for (int attempt = 0; ; attempt++) {
      long seconds = Math.min(1L << attempt, 60);
      try {
        HttpResponse<String> response = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() < 400) return response.body();
        if (!Set.of(429, 502, 503, 504).contains(response.statusCode()) || attempt == 10)
          throw new IllegalStateException(field(response.body(), "message"));
        seconds = response.headers().firstValueAsLong("Retry-After").orElse(seconds);
      } catch (IOException network) {
        if (attempt == 10) throw network;
      }
      Thread.sleep(seconds * 1000);
    }
  }

  static String field(String json, String name) {
    var found = Pattern.compile("\"" + name + "\"\\s*:\\s*\"((?:[^\"\\\\]|\\\\.)*)\"").matcher(json);
    return found.find() ? found.group(1) : "";
  }

  public static void main(String[] args) throws Exception {
    Path document = Path.of(args[0]);
    byte[] bytes = Files.readAllBytes(document);
    String reference = URLEncoder.encode(document.getFileName().toString(), StandardCharsets.UTF_8);
    String job = api(request("/v1/jobs/seal?visibility=private&customer_reference=" + reference)
        .header("Content-Type", "application/pdf")
        .header("Idempotency-Key", HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes)))
        .POST(HttpRequest.BodyPublishers.ofByteArray(bytes)).build());
    String path = "/v1/jobs/" + field(job, "id");
    while (!field(job, "phase").equals("completed")) {
      if (field(job, "phase").equals("failed")) throw new IllegalStateException(field(job, "message"));
      Thread.sleep(1000);
      job = api(request(path).build());
    }
    Path receipt = Path.of(args[0] + ".receipt.json");
    Files.writeString(receipt, api(request(path + "/receipt.json").build()));
    System.exit(new ProcessBuilder("pdfseal", "verify", args[0], receipt.toString(), "--trust", "trust.json")
        .inheritIO().start().waitFor());
  }
}
