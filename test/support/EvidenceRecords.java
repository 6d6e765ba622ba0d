import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Date;
import java.util.List;
import org.bouncycastle.asn1.tsp.ArchiveTimeStamp;
import org.bouncycastle.asn1.tsp.ArchiveTimeStampChain;
import org.bouncycastle.asn1.tsp.ArchiveTimeStampSequence;
import org.bouncycastle.asn1.tsp.EvidenceRecord;
import org.bouncycastle.asn1.x509.AlgorithmIdentifier;
import org.bouncycastle.cert.X509CertificateHolder;
import org.bouncycastle.cms.SignerInformationVerifier;
import org.bouncycastle.cms.jcajce.JcaSimpleSignerInfoVerifierBuilder;
import org.bouncycastle.jce.provider.BouncyCastleProvider;
import org.bouncycastle.operator.DefaultDigestAlgorithmIdentifierFinder;
import org.bouncycastle.operator.DigestCalculator;
import org.bouncycastle.operator.DigestCalculatorProvider;
import org.bouncycastle.operator.jcajce.JcaContentVerifierProviderBuilder;
import org.bouncycastle.operator.jcajce.JcaDigestCalculatorProviderBuilder;
import org.bouncycastle.tsp.TimeStampRequestGenerator;
import org.bouncycastle.tsp.TimeStampResponse;
import org.bouncycastle.tsp.TimeStampToken;
import org.bouncycastle.tsp.ers.ERSArchiveTimeStampGenerator;
import org.bouncycastle.tsp.ers.ERSByteData;
import org.bouncycastle.tsp.ers.ERSData;
import org.bouncycastle.tsp.ers.ERSEvidenceRecord;
import org.bouncycastle.tsp.ers.ERSEvidenceRecordGenerator;

/**
 * BouncyCastle's evidence records, for a test that asks by lines: a word and its operands, bytes in Base64. Each gets one
 * line in answer, after lines "query <TimeStampReq>" that the asker answers with a TimeStampResp.
 */
class EvidenceRecords {
  static final BouncyCastleProvider PROVIDER = new BouncyCastleProvider();
  static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in));
  static DigestCalculatorProvider digests;

  public static void main(String[] args) throws Exception {
    digests = new JcaDigestCalculatorProviderBuilder().setProvider(PROVIDER).build();
    for (String line; (line = IN.readLine()) != null; ) System.out.println(answer(line.split(" ")));
  }

  static String answer(String[] words) {
    try {
      switch (words[0]) {
        case "verify":
          verify(bytes(words[1]), bytes(words[2]), new Date(Long.parseLong(words[3])), holders(words, 4));
          return "good";
        case "generate":
          return generate(words);
        case "renew":
          ERSEvidenceRecord old = new ERSEvidenceRecord(bytes(words[1]), digests);
          return text(old.renewTimeStamp(stamped(old.generateTimeStampRenewalRequest(queries()).getEncoded())));
        case "rehash":
          ERSEvidenceRecord aged = new ERSEvidenceRecord(bytes(words[2]), digests);
          ERSData data = new ERSByteData(bytes(words[3]));
          TimeStampResponse response =
              stamped(aged.generateHashRenewalRequest(digest(words[1]), data, queries()).getEncoded());
          return text(aged.renewHash(digest(words[1]), data, response));
        default:
          return "bad: no such word";
      }
    } catch (Throwable problem) {
      return "bad: " + String.valueOf(problem).replaceAll("\\s+", " ");
    }
  }

  /**
   * RFC 4998, section 5.3. The constructor of ERSEvidenceRecord checks the renewals within chains, validatePresent the
   * first archive time-stamp of the last chain: so each beginning of the sequence is checked. Its method validate() is for
   * records whose renewals all cover all tokens before them, as those of BouncyCastle do and the RFC does not want.
   */
  static void verify(byte[] der, byte[] data, Date at, List<X509CertificateHolder> certificates) throws Exception {
    EvidenceRecord record = EvidenceRecord.getInstance(der);
    ArchiveTimeStampChain[] chains = record.getArchiveTimeStampSequence().getArchiveTimeStampChains();
    AlgorithmIdentifier[] declared = record.getDigestAlgorithms();
    List<TimeStampToken> tokens = new ArrayList<>();
    for (int count = 1; count <= chains.length; count++) {
      ArchiveTimeStampSequence sequence = new ArchiveTimeStampSequence(Arrays.copyOf(chains, count));
      new ERSEvidenceRecord(new EvidenceRecord(declared, null, null, sequence), digests)
          .validatePresent(new ERSByteData(data), at);
      for (ArchiveTimeStamp one : chains[count - 1].getArchiveTimestamps())
        tokens.add(new TimeStampToken(one.getTimeStamp()));
    }
    SignerInformationVerifier last = null;
    for (int index = 0; index < tokens.size(); index++) {
      Date until = index + 1 < tokens.size() ? tokens.get(index + 1).getTimeStampInfo().getGenTime() : at;
      last = verifyToken(tokens.get(index), until, certificates);
    }
    if (chains[chains.length - 1].getArchiveTimestamps().length <= 2) new ERSEvidenceRecord(record, digests).validate(last);
  }

  /** The certificates are trusted roots, and those that tokens need and do not contain. */
  static SignerInformationVerifier verifyToken(TimeStampToken token, Date until, List<X509CertificateHolder> certificates)
      throws Exception {
    Date made = token.getTimeStampInfo().getGenTime();
    List<X509CertificateHolder> pool = new ArrayList<>(certificates);
    pool.addAll(token.getCertificates().getMatches(null));
    X509CertificateHolder signer = pool.stream().filter(one -> token.getSID().match(one)).findFirst().orElseThrow();
    SignerInformationVerifier verifier = new JcaSimpleSignerInfoVerifierBuilder().setProvider(PROVIDER).build(signer);
    token.validate(verifier);
    if (!made.before(until)) throw new Exception("not before the next one");
    for (X509CertificateHolder root : certificates)
      if (root.getSubject().equals(signer.getIssuer())
          && signer.isSignatureValid(new JcaContentVerifierProviderBuilder().setProvider(PROVIDER).build(root))
          && signer.isValidOn(made) && signer.isValidOn(until) && root.isValidOn(made) && root.isValidOn(until)) return verifier;
    throw new Exception("no trusted root, or no longer valid");
  }

  static String generate(String[] words) throws Exception {
    ERSArchiveTimeStampGenerator tree = new ERSArchiveTimeStampGenerator(digest(words[1]));
    for (int index = 2; index < words.length; index++) tree.addData(new ERSByteData(bytes(words[index])));
    TimeStampResponse response = stamped(tree.generateTimeStampRequest(queries()).getEncoded());
    List<String> records = new ArrayList<>();
    for (ERSEvidenceRecord record :
        new ERSEvidenceRecordGenerator(digests).generate(tree.generateArchiveTimeStamps(response)))
      records.add(text(record));
    return String.join(" ", records);
  }

  static TimeStampResponse stamped(byte[] query) throws Exception {
    System.out.println("query " + Base64.getEncoder().encodeToString(query));
    return new TimeStampResponse(bytes(IN.readLine()));
  }

  static TimeStampRequestGenerator queries() {
    TimeStampRequestGenerator generator = new TimeStampRequestGenerator();
    generator.setCertReq(true);
    return generator;
  }

  static DigestCalculator digest(String name) throws Exception {
    return digests.get(new DefaultDigestAlgorithmIdentifierFinder().find(name));
  }

  static List<X509CertificateHolder> holders(String[] words, int from) throws Exception {
    List<X509CertificateHolder> found = new ArrayList<>();
    for (int index = from; index < words.length; index++) found.add(new X509CertificateHolder(bytes(words[index])));
    return found;
  }

  static byte[] bytes(String base64) {
    return Base64.getDecoder().decode(base64);
  }

  static String text(ERSEvidenceRecord record) throws Exception {
    return Base64.getEncoder().encodeToString(record.getEncoded());
  }
}
