import { parseScanAnswer, type ScanAnswer } from './clamdReply.ts';
import { ScannerFailure } from './scannerFailure.ts';
import type { ClamdSession } from './session.ts';

/** A test document, and the kind of answer that a correctly configured scanner gives. */
interface Proof {
  document: Buffer;
  expected: ScanAnswer['kind'];
  /** The meaning of any other answer, and the administrator's remedy. */
  otherwise: string;
}

/** ClamAV does not scan files of 2 GiB or more, regardless of its configuration. */
const SCANNED_BYTES_MAX = 2 ** 31 - 1;

/**
 * Tests that the scanner's verdicts are reliable: it must find a known signature, and must not answer OK to documents that exceed its
 * limits or are encrypted, as clamd does by default. The test documents have some 700 bytes in all. Throws ScannerFailure; `unfit` if the
 * scanner fails a test.
 */
export async function proveScanner(session: ClamdSession, documentBytesMax: number): Promise<void> {
  for (const { document, expected, otherwise } of proofsFor(documentBytesMax)) {
    session.begin();
    void session.write(document);
    const answer = parseScanAnswer(await session.end());
    if (answer.kind === expected) continue;
    const said = answer.kind === 'error' ? answer.text : answer.kind === 'clean' ? 'OK' : answer.name;
    throw new ScannerFailure('unfit', `${otherwise} (clamd said "${said}")`);
  }
}

function proofsFor(documentBytesMax: number): Proof[] {
  return [
    {
      document: eicar(),
      expected: 'found',
      otherwise: 'clamd does not find the EICAR test file: load its signatures, with freshclam',
    },
    {
      document: archiveOf(SCANNED_BYTES_MAX),
      expected: 'incomplete',
      otherwise:
        'clamd answers OK to documents that exceed its limits: set AlertExceedsMax yes and ScanArchive yes in clamd.conf',
    },
    {
      document: encryptedPdf(),
      expected: 'encrypted',
      otherwise: 'clamd answers OK to an encrypted PDF: set AlertEncrypted yes and ScanPDF yes in clamd.conf',
    },
    {
      document: encryptedArchive(),
      expected: 'encrypted',
      otherwise:
        'clamd answers OK to an encrypted archive: set AlertEncrypted yes and ScanArchive yes in clamd.conf',
    },
    {
      document: archiveOf(Math.min(documentBytesMax, SCANNED_BYTES_MAX)),
      expected: 'clean',
      otherwise:
        'clamd does not scan documents as large as limits.document_bytes_max: lower that, or raise MaxFileSize (below 2G) and MaxScanSize (more than MaxFileSize) in clamd.conf',
    },
  ];
}

/** Written backwards here, so that scanners find it in the test document and not in this program. */
function eicar(): Buffer {
  const backwards = '*H+H$!ELIF-TSET-SURIVITNA-DRADNATS-RACIE$}7)CC7)^P(45XZP\\4[PA@%P!O5X';
  return Buffer.from([...backwards].reverse().join(''));
}

/** The header of a tar archive with a file of this size. clamd compares its limits with the size in the header. */
function archiveOf(bytes: number): Buffer {
  const archive = Buffer.alloc(1024);
  archive.write('document', 0);
  archive.write('0000644', 100);
  archive.write('0000000', 108);
  archive.write('0000000', 116);
  archive.write(bytes.toString(8).padStart(11, '0'), 124);
  archive.write('00000000000', 136);
  archive.write(' '.repeat(8), 148);
  archive.write('0', 156);
  archive.write('ustar\x0000', 257);
  const checksum = archive.reduce((sum, byte) => sum + byte, 0);
  archive.write(`${checksum.toString(8).padStart(6, '0')}\0`, 148);
  return archive;
}

/** A document without pages, encrypted under an unknown password (ISO 32000-1, 7.6). */
function encryptedPdf(): Buffer {
  const owner = 'ab'.repeat(32);
  const user = 'cd'.repeat(32);
  return Buffer.from(`%PDF-1.4
1 0 obj
<</Type/Catalog/Pages 2 0 R>>
endobj
2 0 obj
<</Type/Pages/Kids[]/Count 0>>
endobj
3 0 obj
<</Filter/Standard/V 1/R 2/O<${owner}>/U<${user}>/P -4>>
endobj
trailer
<</Size 4/Root 1 0 R/Encrypt 3 0 R/ID[<00><00>]>>
startxref
0
%%EOF
`);
}

/** An archive with one stored file that is flagged as encrypted (APPNOTE.TXT, 4.3.7, 4.3.12 and 4.3.16). */
function encryptedArchive(): Buffer {
  const name = Buffer.from('a');
  const content = Buffer.alloc(24);
  // From "version needed" to "extra field length", the same in both headers.
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt16LE(1, 2);
  common.writeUInt32LE(content.length, 14);
  common.writeUInt32LE(content.length - 12, 18);
  common.writeUInt16LE(name.length, 22);
  const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, name, content]);
  const central = Buffer.concat([Buffer.from('PK\x01\x02\x14\x00'), common, Buffer.alloc(14), name]);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06');
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(local.length, 16);
  return Buffer.concat([local, central, end]);
}
