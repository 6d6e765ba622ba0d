import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.HashSet;
import java.util.Set;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

class Hooks {
  static final byte[] KEY = Base64.getDecoder().decode(System.getenv("SEAL_WEBHOOK_SECRET").replaceFirst("^whsec_", ""));
  static final Set<String> handled = new HashSet<>(); // in production: a table with the webhook-id as its key

  static String header(Headers headers, String name) {
    return headers.getFirst(name) == null ? "" : headers.getFirst(name);
  }

  static boolean isGenuine(Headers headers, byte[] body) throws Exception {
    String timestamp = header(headers, "webhook-timestamp");
    if (!timestamp.matches("\\d{1,12}")) return false;
    if (Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(timestamp)) > 300) return false;
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(KEY, "HmacSHA256"));
    mac.update((header(headers, "webhook-id") + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
    byte[] expected = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.UTF_8);
    for (String given : header(headers, "webhook-signature").split(" "))
      if (MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8), expected)) return true;
    return false;
  }

  public static void main(String[] args) throws Exception {
    String port = System.getenv().getOrDefault("PORT", "8500");
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(port)), 0);
    server.createContext("/", exchange -> {
      byte[] body = exchange.getRequestBody().readAllBytes();
      boolean genuine = false;
      try {
        genuine = isGenuine(exchange.getRequestHeaders(), body);
        if (genuine && handled.add(header(exchange.getRequestHeaders(), "webhook-id")))
          System.out.println(new String(body, StandardCharsets.UTF_8));
      } catch (Exception fault) {
        fault.printStackTrace();
      }
      exchange.sendResponseHeaders(genuine ? 204 : 401, -1);
      exchange.close();
    });
    server.start();
  }
}
