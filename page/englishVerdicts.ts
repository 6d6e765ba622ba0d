/** What the page says of checks and of verdicts that are not good, in English. */
import type { Verdict } from 'pdfseald/verify';

type CheckName = Verdict['checks'][number]['name'];

/** The words of a check for each possible outcome. */
interface CheckWords {
  passed?: string;
  failed?: string;
  unknown: string;
  not_shown?: string;
}

export const CHECK_NAMES: Record<CheckName, string> = {
  trust: 'Trust file',
  seal: 'Sealed PDF',
  receipt: 'Receipt',
  bundle: 'Bundle',
  proof: 'Proof',
  document: 'Document',
  manifest: 'Statement',
  leaf: 'Place in the log',
  checkpoint: 'Log',
  quorum: 'Signatures',
  'time-stamp': 'Time',
  epoch: 'Keys',
  times: 'Order of the dates',
  revocation: 'Certificate of the time-stamp',
  renewal: 'Renewal of the time-stamp',
  witnesses: 'Witnesses',
  'evidence-record': 'Evidence record',
};

export const CHECKS: Record<CheckName, CheckWords> = {
  trust: {
    passed: 'The trust file can be read.',
    failed: 'The trust file cannot be read.',
    unknown: 'The trust file cannot be read.',
  },
  seal: {
    passed: 'The PDF is the document with its receipt, and nothing else.',
    failed: 'The PDF was changed after it was sealed.',
    unknown: 'Whether the PDF was changed after it was sealed cannot be determined.',
  },
  receipt: {
    passed: 'The receipt is intact: its checksum matches.',
    failed: 'The receipt is damaged or was altered.',
    unknown: 'This page is too old for the receipt.',
  },
  bundle: {
    passed: 'The bundle is intact: its checksum matches.',
    failed: 'The bundle is damaged or was altered.',
    unknown: 'This page is too old for the bundle.',
  },
  proof: {
    passed: 'The proof and its statement about the document can be read.',
    failed: 'The proof is damaged or was altered.',
    unknown: 'This page is too old for the proof.',
  },
  document: {
    passed: 'The document is, byte for byte, the one that this receipt describes.',
    failed: 'The document is not the one that this receipt describes.',
    unknown: 'The document is missing, so it was not checked.',
  },
  manifest: {
    passed: 'The receipt agrees with the statement in it.',
    failed: 'The statement does not belong to such a receipt.',
    unknown: 'The statement cannot be checked.',
  },
  leaf: {
    passed: 'The statement is in the log, in the state that the receipt shows.',
    failed: 'The receipt does not show that the statement is in the log.',
    unknown: 'Whether the statement is in the log cannot be determined.',
  },
  checkpoint: {
    passed: 'The receipt names a log of the trust file.',
    failed: 'The log does not match the receipt.',
    unknown: 'The trust file does not list the log.',
  },
  quorum: {
    passed: 'Enough keys of the log have signed.',
    failed: 'The log has not signed this as the trust file requires.',
    unknown: 'Whether the log has signed cannot be determined with this trust file.',
  },
  'time-stamp': {
    passed: 'The time-stamps are as the trust file requires.',
    failed: 'The time is not proven as the trust file requires.',
    unknown: 'The time cannot be checked.',
  },
  epoch: {
    passed: 'The trust file has keys of the log for the time that the receipt states.',
    failed: 'The trust file has no keys of the log for that time.',
    unknown: 'Whether the keys belong to that time cannot be determined.',
  },
  times: {
    passed: 'The dates follow each other, and none is in the future.',
    unknown: 'The dates contradict each other, or are in the future.',
  },
  revocation: {
    passed: 'No certificate was revoked in a way that takes the time-stamp away.',
    unknown: 'The certificate of the time-stamp was revoked, so the time-stamp does not show the time.',
    not_shown: 'Whether the certificate of the time-stamp was revoked is not shown.',
  },
  renewal: {
    unknown: 'The certificate of the time-stamp has expired, and no evidence record shows its renewal.',
    not_shown:
      'The certificate of the time-stamp has expired since. An evidence record can show that it was renewed in time.',
  },
  witnesses: {
    passed: 'Enough witnesses have cosigned the log.',
    failed: 'The proof in the bundle does not belong to this receipt and this log.',
    unknown: 'Too few witnesses have cosigned the log.',
    not_shown: 'The receipt does not show which witnesses have cosigned the log.',
  },
  'evidence-record': {
    passed: 'The evidence record proves today that the state of the log in the receipt existed then.',
    failed: 'The evidence record does not prove this receipt.',
    unknown: 'The evidence record cannot be judged.',
    not_shown:
      'The evidence record in the bundle has ended since. A newer one can show that it was renewed in time.',
  },
};

/** The meaning of a failed or undecided check, or of a fault of an evidence record: the headline, and the remedy. */
export interface Trouble {
  lead: string;
  remedy: string;
}

export const BAD: Record<string, Trouble> = {
  receipt: {
    lead: 'This receipt is damaged or was altered.',
    remedy: 'Do not rely on it. Ask for the receipt again, from the service that sealed the document.',
  },
  bundle: {
    lead: 'This bundle is damaged or was altered.',
    remedy: 'Do not rely on it. Ask for the bundle again, from the service that sealed the document.',
  },
  log_forked: {
    lead: 'The log signed two histories that contradict each other.',
    remedy: 'Do not rely on any receipt of this log. Show this bundle to the administrator of the log.',
  },
  witnesses: {
    lead: 'The proof in this bundle does not show that witnesses have cosigned the log with this receipt.',
    remedy: 'Do not rely on it. Ask for the bundle again, from the service that sealed the document.',
  },
  proof: {
    lead: 'This proof is damaged or was altered.',
    remedy: 'Do not rely on it. Ask for the receipt instead, which also proves the time.',
  },
  leaf: {
    lead: 'This receipt does not come from the log.',
    remedy: 'Do not rely on it. Ask for the receipt again, from the service that sealed the document.',
  },
  checkpoint: {
    lead: 'This receipt does not match its log.',
    remedy:
      'Make sure that the receipt and the trust file belong to the same environment. If they are, do not rely on the receipt.',
  },
  quorum: {
    lead: 'The log did not sign this receipt as the trust file requires.',
    remedy:
      'Do not rely on it. If you have an old trust file, ask the administrator of the log for the current one, and check again.',
  },
  'time-stamp': {
    lead: 'The time of this receipt is not proven.',
    remedy: 'Do not rely on it. Ask for the receipt again, from the service that sealed the document.',
  },
  epoch: {
    lead: 'The time of this receipt does not match the keys of its log.',
    remedy:
      'Do not rely on it. If you have an old trust file, ask the administrator of the log for the current one, and check again.',
  },
  canary: {
    lead: 'This receipt is not for a document.',
    remedy:
      'It belongs to a test with which the service monitors itself. Ask for the receipt of your document.',
  },
  manifest: {
    lead: 'This receipt contradicts its own statement.',
    remedy: 'Do not rely on it. Ask for the receipt again, from the service that sealed the document.',
  },
  document: {
    lead: 'This is not the document of this receipt.',
    remedy:
      'Make sure that you chose the right file, and that no program has saved it again: a single changed byte makes it another document. Check a PDF that holds its receipt without another one.',
  },
  seal: {
    lead: 'This PDF was changed after it was sealed.',
    remedy:
      'Do not rely on it. Ask for the PDF again, from the person who gave it to you or from the service that sealed the document.',
  },
  'evidence-record': {
    lead: 'The evidence record does not prove this receipt.',
    remedy: 'Make sure that the record belongs to this receipt, or ask the service for it again.',
  },
  gap: {
    lead: 'The evidence record was renewed too late.',
    remedy:
      'This record cannot be repaired. Ask the administrator of the log for another record of this receipt.',
  },
  authority: {
    lead: 'The trust file does not trust a time-stamp of the evidence record.',
    remedy:
      'Do not rely on it. If you have an old trust file, ask the administrator of the log for the current one, and check again.',
  },
};

export const UNKNOWN: Record<string, Trouble> = {
  trust: {
    lead: 'The trust file cannot be read.',
    remedy: 'Ask the administrator of the log for the trust file, through a channel that you trust.',
  },
  receipt_missing: {
    lead: 'No receipt is attached to this document.',
    remedy:
      'Choose its receipt too: the .json file of the receipt or its bundle, from the service that sealed the document.',
  },
  seal: {
    lead: 'Whether this PDF was changed after it was sealed cannot be determined.',
    remedy: 'Choose the document as it was sealed, and its receipt in a file of its own.',
  },
  receipt: {
    lead: 'This page is too old for this receipt.',
    remedy: 'Get a newer version of this page from the administrator of the log.',
  },
  bundle: {
    lead: 'This page is too old for this bundle.',
    remedy: 'Get a newer version of this page from the administrator of the log.',
  },
  document: {
    lead: 'The document of this receipt is missing.',
    remedy: 'Choose the document too, byte for byte as it was sealed.',
  },
  checkpoint: {
    lead: 'The trust file does not list the log of this receipt.',
    remedy:
      'Ask the administrator of that log for its trust file, through a channel that you trust. Do not take it from the sender of the receipt.',
  },
  quorum: {
    lead: 'The trust file does not list the keys that signed.',
    remedy:
      'The trust file can be older than the receipt: ask the administrator of the log for the current one. If this is the current one, do not rely on the receipt.',
  },
  'time-stamp': {
    lead: 'It is not proven when this document was sealed.',
    remedy:
      'A proof in the format of other tools has no time-stamp: choose the receipt instead. If this is the receipt, the trust file does not list its time-stamp authority: ask the administrator of the log.',
  },
  epoch: {
    lead: 'It is not proven when this document was sealed.',
    remedy: 'Choose the receipt instead of the proof: only the receipt proves the time.',
  },
  times: {
    lead: 'The dates of this receipt contradict each other.',
    remedy: 'A clock was wrong, or the time was falsified. Ask the administrator of the log.',
  },
  revocation: {
    lead: 'It is no longer proven when this document was sealed.',
    remedy:
      'The certificate of the time-stamp was revoked. An evidence record can show that another key renewed the time-stamp before: ask the administrator of the log for it.',
  },
  in_the_future: {
    lead: 'This receipt is dated later than the clock of this computer.',
    remedy:
      'Set the clock of this computer, and check again. If it is right, do not rely on the receipt yet.',
  },
  witnesses: {
    lead: 'Too few witnesses have cosigned this log.',
    remedy: 'Ask the service for a newer proof: witnesses need some time.',
  },
  'evidence-record': {
    lead: 'The evidence record cannot be checked.',
    remedy: 'Ask the administrator of the log for the newest record and trust file.',
  },
  expired: {
    lead: 'The evidence record has expired.',
    remedy: 'Ask the service for the newest record of this receipt.',
  },
  future: {
    lead: 'The evidence record is dated later than the clock of this computer.',
    remedy: 'Set the clock of this computer, and check again.',
  },
  untrusted: {
    lead: 'The trust file does not list the authority that time-stamped the evidence record.',
    remedy: 'Ask the administrator of the log for the current trust file, through a channel that you trust.',
  },
  unsupported: {
    lead: 'This page does not support this kind of evidence record.',
    remedy: 'Get a newer version of this page from the administrator of the log.',
  },
};
