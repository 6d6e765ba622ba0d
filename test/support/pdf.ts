import { PDFDocument, StandardFonts } from 'pdf-lib';

/** A real PDF of one page with that text. */
export async function makePdf(text: string): Promise<Uint8Array> {
  const pdf = await PDFDocument.create();
  const font = await pdf.embedFont(StandardFonts.Helvetica);
  pdf.addPage().drawText(text, { x: 50, y: 750, size: 18, font });
  return pdf.save();
}
