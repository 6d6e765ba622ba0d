import { InvalidArgumentError } from 'commander';
import t from 'tap';
import { parseSubjectArgument } from '../../src/cli/hsm/subject.ts';
import { fc } from '../support/seed.ts';

t.test('a subject is parsed into its attributes', async (t) => {
  for (const [text, subject] of [
    ['CN=TSU', { commonName: 'TSU' }],
    [
      'c=DE, o = Muster & Söhne ,OU=Time,cn=TSU=1',
      { country: 'DE', organization: 'Muster & Söhne', organizationalUnit: 'Time', commonName: 'TSU=1' },
    ],
    ['O=Muster\\, Sons \\\\ Co,CN=x', { organization: 'Muster, Sons \\ Co', commonName: 'x' }],
    [`CN=${'ü'.repeat(64)}`, { commonName: 'ü'.repeat(64) }],
  ] as const) {
    t.strictSame(parseSubjectArgument(text), subject, text);
  }
});

t.test('text that is not a subject is refused', async (t) => {
  for (const text of [
    '',
    'TSU',
    'O=Muster',
    'CN=a,CN=b',
    'CN=',
    'CN= ,O=x',
    'CN=a,L=Bonn',
    'CN=a,C=Germany',
    'CN=a,C=de',
    'CN=a\nb',
    'CN=a\u202eb',
    'CN=a,,',
    'CN=a\\',
    `CN=${'x'.repeat(65)}`,
    'constructor=a,CN=x',
  ]) {
    t.throws(() => parseSubjectArgument(text), InvalidArgumentError, JSON.stringify(text));
  }
});

t.test('any name can be written in a subject', async (t) => {
  const name = fc
    .string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 64 })
    .filter((text) => text.trim() === text);
  const readBack = fc.property(name, name, (organization, commonName) => {
    const written = (value: string) => value.replaceAll(/[\\,]/g, '\\$&');
    const parsed = parseSubjectArgument(`CN=${written(commonName)},O=${written(organization)}`);
    return parsed.commonName === commonName && parsed.organization === organization;
  });
  t.doesNotThrow(() => fc.assert(readBack));
});
