import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.TreeSet;
import org.apache.pdfbox.pdmodel.PDDocument;
import org.apache.pdfbox.pdmodel.PDDocumentNameDictionary;
import org.apache.pdfbox.pdmodel.common.PDNameTreeNode;
import org.apache.pdfbox.pdmodel.common.filespecification.PDComplexFileSpecification;

/** What PDFBox says of the document of each line of input: a line of JSON. */
class PdfBoxJudge {
  public static void main(String[] args) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String path = input.readLine(); path != null; path = input.readLine()) {
      int complaints = 0;
      String said = "", shows = "";
      TreeSet<String> files = new TreeSet<>();
      try (PDDocument document = PDDocument.load(new File(path))) {
        shows = "pages: " + document.getNumberOfPages();
        document.getPages().forEach((page) -> page.getMediaBox());
        PDDocumentNameDictionary names = document.getDocumentCatalog().getNames();
        if (names != null) collect(names.getEmbeddedFiles(), files);
      } catch (Throwable thrown) {
        complaints = 1;
        said = thrown.toString();
      }
      StringBuilder list = new StringBuilder();
      for (String file : files) list.append(list.length() == 0 ? "" : ",").append(quoted(file));
      System.out.println("{\"complaints\":" + complaints + ",\"said\":" + quoted(said) + ",\"shows\":"
          + quoted(shows) + ",\"files\":[" + list + "]}");
    }
  }

  static void collect(PDNameTreeNode<PDComplexFileSpecification> node, TreeSet<String> files) throws Exception {
    if (node == null) return;
    if (node.getNames() != null) files.addAll(node.getNames().keySet());
    if (node.getKids() != null) for (PDNameTreeNode<PDComplexFileSpecification> kid : node.getKids()) collect(kid, files);
  }

  static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char c : text.toCharArray())
      quoted.append(c < ' ' || c == '"' || c == '\\' || c > '~' ? String.format("\\u%04x", (int) c) : "" + c);
    return quoted.append('"').toString();
  }
}
