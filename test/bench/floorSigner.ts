/** The least that a signer can be: one key, a record that is flushed while the HSM signs, and no rule about what is signed. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { openStream, readCharter } from '../../src/base/companionProgram.ts';
import { encodeFrame, readFrames } from '../../src/base/frames.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { HsmToken } from '../../src/kms/token.ts';

/** What it is started with: `record` is a file, absent for a key that needs none. */
export interface FloorSigner {
  token: PartitionOptions & { module: string };
  record?: string;
}

const RECORD_BYTES = 8192;
const MESSAGE_BYTES_MAX = 64 * 1024;

const { token, record } = readCharter() as FloorSigner;
const hsm = HsmToken.open(token.module, token, 'read', 2);
await hsm.logIn(60_000);
const key = hsm.findKey();
const DURABLE = constants.O_RDWR | constants.O_CREAT | constants.O_DSYNC;
const file = record === undefined ? undefined : await open(record, DURABLE);
const stream = openStream();
readFrames(stream, MESSAGE_BYTES_MAX, async (message) => {
  const written = file?.write(Buffer.alloc(RECORD_BYTES, ' '), 0, RECORD_BYTES, 0);
  const [signature] = await Promise.all([key.sign(Buffer.from(String(message), 'base64')), written]);
  stream.write(encodeFrame(Buffer.from(signature).toString('base64')));
});
stream.on('close', () => process.exit());
