import { fromUtf8 } from '../base/bytes.ts';
import {
  contentOf,
  Fields,
  integer,
  MalformedDer,
  namedBits,
  parseDer,
  primitive,
  readInteger,
  readNamedBits,
  sequence,
  TAG,
} from './der.ts';

/** PKIStatus (RFC 3161, section 2.4.2). */
export const PKI_STATUS = {
  granted: 0,
  grantedWithMods: 1,
  rejection: 2,
  waiting: 3,
  revocationWarning: 4,
  revocationNotification: 5,
} as const;

/** Bits of PKIFailureInfo (RFC 3161, section 2.4.2). */
export const FAILURE_INFO = {
  badAlg: 0,
  badRequest: 2,
  badDataFormat: 5,
  timeNotAvailable: 14,
  unacceptedPolicy: 15,
  unacceptedExtension: 16,
  addInfoNotAvailable: 17,
  systemFailure: 25,
} as const;
export type FailureInfo = keyof typeof FAILURE_INFO;

/** A TimeStampResp, as read by a client. */
export interface TimestampResponse {
  status: keyof typeof PKI_STATUS;
  /** The failures that have a name. */
  failures: FailureInfo[];
  /** The authority's status text, shortened and without control characters. */
  text: string;
  /** DER of the token, present exactly when the status is `granted` or `grantedWithMods`. */
  token?: Uint8Array;
}

const TEXT_CHARS_MAX = 200;

/** DER of a response that grants the query. */
export function encodeGranted(token: Uint8Array): Uint8Array {
  return sequence(sequence(integer(PKI_STATUS.granted)), token);
}

/** DER of a response that rejects the query, with one failure and a text. */
export function encodeRejection(failure: FailureInfo, text: string): Uint8Array {
  const freeText = sequence(primitive(TAG.utf8String, fromUtf8(text)));
  return sequence(sequence(integer(PKI_STATUS.rejection), freeText, namedBits(FAILURE_INFO[failure])));
}

/** Reads the response of any authority. Throws MalformedDer. */
export function parseResponse(der: Uint8Array): TimestampResponse {
  const fields = new Fields(parseDer(der));
  const info = new Fields(fields.take(TAG.sequence));
  const token = fields.takeIf(TAG.sequence);
  fields.end();
  const number = readInteger(info.take(TAG.integer));
  const text = info.takeIf(TAG.sequence);
  const failInfo = info.takeIf(TAG.bitString);
  info.end();
  const status = nameOf(PKI_STATUS, number);
  if (status === undefined) throw new MalformedDer('an unknown status');
  const granted = status === 'granted' || status === 'grantedWithMods';
  if (granted !== (token !== undefined)) throw new MalformedDer('a status that contradicts the token');
  const bits = failInfo === undefined ? [] : readNamedBits(failInfo);
  const texts = text === undefined ? [] : new Fields(text).rest();
  const lines = texts.map((line) => new TextDecoder().decode(contentOf(line)));
  return {
    status,
    failures: bits.map((bit) => nameOf(FAILURE_INFO, bit)).filter((name) => name !== undefined),
    text: lines.join(' ').replace(/\p{C}/gu, ' ').slice(0, TEXT_CHARS_MAX),
    ...(token && { token: token.der }),
  };
}

function nameOf<Name extends string>(names: Record<Name, number>, number: number): Name | undefined {
  return (Object.keys(names) as Name[]).find((name) => names[name] === number);
}
