import { PDFDocument, StandardFonts } from 'pdf-lib';

/** A real PDF of one page with that text. */
export async function makePdf(text: string): Promise<Uint8Array> {
  const pdf = await PDFDocument.create();
  const font = await pdf.embedFont(StandardFonts.Helvetica);
  pdf.addPage().drawText(text, { x: 50, y: 750, size: 18, font });
  return pdf.save();
}

/** ISO 32000-1, 7.6: a PDF without pages, under a password nobody knows. */
export function encryptedPdf(): Buffer {
  const [owner, user] = ['5a'.repeat(32), 'a5'.repeat(32)];
  return Buffer.from(`%PDF-1.5
1 0 obj
<< /Type /Catalog /Pages 2 0 R >>
endobj
2 0 obj
<< /Type /Pages /Kids [] /Count 0 >>
endobj
3 0 obj
<< /Filter /Standard /V 2 /R 3 /Length 128 /O <${owner}> /U <${user}> /P -44 >>
endobj
trailer
<< /Size 4 /Root 1 0 R /Encrypt 3 0 R /ID [<0102> <0102>] >>
startxref
0
%%EOF
`);
}
