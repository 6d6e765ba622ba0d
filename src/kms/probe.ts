import { randomBytes } from 'node:crypto';

/** 0xFF occurs nowhere in UTF-8, NUL nowhere in a note. */
const BEFORE = Buffer.from('\xffpdfseal partition probe, signs nothing\0', 'latin1');
const AFTER = Buffer.from('\xff', 'latin1');

/**
 * A message that proves a partition can sign: only a signature does, since a token that vanished still opens sessions.
 *
 * The log's key signs it, so it must never pass for a genuine message. A note is valid UTF-8 without control characters and its text ends
 * in a newline (C2SP signed-note): this message meets none of these conditions. Nor can it be taken for DER (0x30) or for an RFC 6962 tree
 * head (0x00). The random middle keeps a token from answering with an old signature.
 */
export function probeMessage(): Buffer {
  return Buffer.concat([BEFORE, randomBytes(16), AFTER]);
}
