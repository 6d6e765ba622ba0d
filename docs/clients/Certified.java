import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

class Certified {
  public static void main(String[] args) throws Exception {
    char[] password = "changeit".toCharArray();
    KeyStore own = KeyStore.getInstance("PKCS12"), trusted = KeyStore.getInstance("PKCS12");
    try (var file = new FileInputStream("client.p12")) {
      own.load(file, password);
    }
    trusted.load(null, null);
    try (var file = new FileInputStream("ca.pem")) {
      trusted.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
    }
    var keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(own, password);
    var authorities = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    authorities.init(trusted);
    SSLContext tls = SSLContext.getInstance("TLS");
    tls.init(keys.getKeyManagers(), authorities.getTrustManagers(), null);
    var request = HttpRequest.newBuilder(URI.create(System.getenv("PDFSEAL_URL") + "/v1/jobs?limit=1"))
        .timeout(Duration.ofMinutes(1)).build();
    var answer = HttpClient.newBuilder().sslContext(tls).build().send(request, HttpResponse.BodyHandlers.ofString());
    if (answer.statusCode() != 200) throw new IllegalStateException(answer.body());
    System.out.println(answer.body());
  }
}
