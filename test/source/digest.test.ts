import t from 'tap';
import { representationSha256 } from '../../src/source/digest.ts';
import { reprDigest, sha256Of } from '../support/sources.ts';

const document = Buffer.from('a document');
const other = Buffer.from('another');
const hex = sha256Of(document);
const base64 = Buffer.from(hex, 'hex').toString('base64');
const otherBase64 = Buffer.from(sha256Of(other), 'hex').toString('base64');

const cases: [string, Record<string, string[]>, string | undefined][] = [
  ['nothing', {}, undefined],
  ['Repr-Digest', { 'repr-digest': [reprDigest(document)] }, hex],
  ['Repr-Digest among others', { 'repr-digest': [`sha-512=:YQ==:, sha-256=:${base64}:;x=1`] }, hex],
  ['Repr-Digest in two lines', { 'repr-digest': ['sha-512=:YQ==:', reprDigest(document)] }, hex],
  [
    'a member given twice: the last counts (RFC 9651)',
    { 'repr-digest': [`${reprDigest(other)}, ${reprDigest(document)}`] },
    hex,
  ],
  ['Repr-Digest without SHA-256', { 'repr-digest': ['sha-512=:YQ==:'] }, undefined],
  ['Repr-Digest that is a string', { 'repr-digest': [`sha-256="${base64}"`] }, undefined],
  ['Repr-Digest of a wrong length', { 'repr-digest': ['sha-256=:YQ==:'] }, undefined],
  ['Repr-Digest that cannot be read', { 'repr-digest': [`sha-256=${base64}`] }, undefined],
  ['Content-Digest', { 'content-digest': [reprDigest(document)] }, undefined],
  ['Digest', { digest: [`SHA-256=${base64}`] }, hex],
  ['Digest in lower case, among others', { digest: [`md5=YQ==, sha-256=${base64}`] }, hex],
  ['Digest in two lines', { digest: ['md5=YQ==', `sha-256=${base64} `] }, hex],
  ['Digest that is no Base64', { digest: [`sha-256=${hex}`] }, undefined],
  ['S3', { 'x-amz-checksum-sha256': [base64] }, hex],
  [
    'S3 of a whole object',
    { 'x-amz-checksum-sha256': [base64], 'x-amz-checksum-type': ['FULL_OBJECT'] },
    hex,
  ],
  ['S3 of an object in parts', { 'x-amz-checksum-sha256': [`${base64}-3`] }, undefined],
  ['S3 that says so', { 'x-amz-checksum-sha256': [base64], 'x-amz-checksum-type': ['COMPOSITE'] }, undefined],
  ['S3 twice', { 'x-amz-checksum-sha256': [base64, otherBase64] }, undefined],
  [
    'Repr-Digest before Digest',
    { 'repr-digest': [reprDigest(document)], digest: [`sha-256=${otherBase64}`] },
    hex,
  ],
  ['Digest before S3', { digest: [`sha-256=${base64}`], 'x-amz-checksum-sha256': [otherBase64] }, hex],
  [
    'Digest where Repr-Digest says nothing',
    { 'repr-digest': ['sha-512=:YQ==:'], digest: [`sha-256=${base64}`] },
    hex,
  ],
  ['S3 where Digest says nothing', { digest: ['md5=YQ=='], 'x-amz-checksum-sha256': [base64] }, hex],
];

for (const [name, headers, found] of cases) {
  t.equal(representationSha256(headers), found, name);
}
