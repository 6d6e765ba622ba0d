import type { lookup } from 'node:dns';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { parseAllowed, TargetPolicy, TargetRefused, uselessEntries } from '../../src/web/policy.ts';

/** Whether the URL may be tried: names are not looked up for this. */
function admits(allow: string[], url: string): boolean {
  try {
    new TargetPolicy(allow).guard(new URL(url));
    return true;
  } catch (error) {
    if (error instanceof TargetRefused) return false;
    throw error;
  }
}

t.test('entries are origins, addresses or networks, and others are refused', async (t) => {
  const good = [
    'https://erp.example.com',
    'http://erp.example.com:8080/',
    'https://*.example.com',
    'https://*',
    'http://*:8080',
    'https://[2001:db8::1]:8443',
    '10.0.0.0/8',
    '192.0.2.7',
    'fd00::/8',
    '::1',
  ];
  for (const text of good) t.ok(parseAllowed(text), text);
  const bad = [
    '',
    '*',
    'erp.example.com',
    'ftp://erp.example.com',
    'https://',
    'https://user@erp.example.com',
    'https://erp.example.com/path',
    'https://erp.example.com?q',
    'https://e*p.example.com',
    'https://*example.com',
    'https://*.*.example.com',
    'https://erp.example.com:99999',
    '10.0.0.0/33',
    '10/8',
    '10.0.0.0/8/8',
    '0x7f.0.0.1/8',
    'fd00::/129',
  ];
  for (const text of bad) t.equal(parseAllowed(text), undefined, text);
  t.throws(() => new TargetPolicy(['https://erp.example.com', 'nonsense']), /"nonsense" is neither/);
});

t.test('an origin is allowed by scheme, host and port', async (t) => {
  const cases: [allow: string[], url: string, admitted: boolean][] = [
    [[], 'https://erp.example.com/', false],
    [['https://erp.example.com'], 'https://erp.example.com/hook?a=b', true],
    [['https://erp.example.com'], 'https://ERP.example.com:443/', true],
    [['https://erp.example.com'], 'http://erp.example.com/', false],
    [['https://erp.example.com'], 'https://erp.example.com:8443/', false],
    [['https://erp.example.com'], 'https://erp.example.com.evil.test/', false],
    [['https://erp.example.com'], 'https://user:secret@erp.example.com/', false],
    [['https://*.example.com'], 'https://a.b.example.com/', true],
    [['https://*.example.com'], 'https://example.com/', false],
    [['https://*.example.com'], 'https://evilexample.com/', false],
    [['https://*'], 'https://anything.test/', true],
    [['https://*'], 'http://anything.test/', false],
    [['https://*', 'http://*'], 'ftp://anything.test/', false],
    [['10.0.0.0/8'], 'https://may-be-there.test/', true],
  ];
  for (const [allow, url, admitted] of cases) t.equal(admits(allow, url), admitted, `${allow} ${url}`);
});

t.test('special addresses need a listed network, and some are never allowed', async (t) => {
  const everywhere = ['https://*', 'http://*'];
  const anything = [...everywhere, '0.0.0.0/0', '::/0'];
  const publicOnes = ['93.184.215.14', '[2606:2800:21f:cb07:6820:80da:af6b:8b2c]'];
  const special = [
    '127.0.0.1',
    '2130706433', // the same, as a URL may write it
    '10.1.2.3',
    '172.16.0.1',
    '192.168.1.1',
    '100.64.0.1',
    '198.18.0.1',
    '[::1]',
    '[::ffff:10.0.0.1]',
    '[fd12:3456::1]',
    '[64:ff9b::5db8:d70e]',
    '[2001:db8::1]',
  ];
  const never = [
    '0.0.0.0',
    '169.254.169.254',
    '224.0.0.1',
    '255.255.255.255',
    '100.100.100.200',
    '[::]',
    '[fe80::1]',
    '[ff02::1]',
    '[fd00:ec2::254]',
    '[fd00:ec2::23]',
    '[fd20:ce::254]',
    '[fd00:42::42]',
    '[::ffff:169.254.169.254]',
    '[::169.254.169.254]',
    '[64:ff9b::a9fe:a9fe]',
    '[64:ff9b:1::a9fe:a9fe]',
    '[2002:a9fe:a9fe::1]',
  ];
  for (const host of publicOnes) t.equal(admits(everywhere, `http://${host}/`), true, host);
  for (const host of special) {
    t.equal(admits(everywhere, `http://${host}/`), false, `${host} by origin`);
    t.equal(admits(anything, `http://${host}/`), true, `${host} by network`);
  }
  for (const host of never) t.equal(admits(anything, `http://${host}/`), false, host);
  t.equal(admits(['10.0.0.0/8'], 'http://10.255.0.1:9/'), true);
  t.equal(admits(['10.0.0.0/8'], 'http://[::ffff:10.1.2.3]/'), true, 'a mapped address is the address');
  t.equal(admits(['::ffff:10.0.0.0/104'], 'http://10.1.2.3/'), true);
  t.equal(admits(['10.0.0.0/8'], 'http://11.0.0.1/'), false);
});

t.test('a wide IPv6 network does not allow IPv4 addresses that are not listed', async (t) => {
  const hex = (address: string) => Buffer.from(address.split('.').map(Number)).toString('hex');
  /** Every way to write an IPv4 address into one of IPv6, but the mapped one, which is the address itself. */
  const forms: [name: string, write: (address: string) => string][] = [
    ['compatible', (a) => `::${a}`],
    ['translated', (a) => `::ffff:0:${a}`],
    ['NAT64', (a) => `64:ff9b::${a}`],
    ['NAT64 of /96', (a) => `64:ff9b:1::${a}`],
    ['NAT64 of /96 in another network', (a) => `64:ff9b:1:fffe::${a}`],
    ['NAT64 of /48', (a) => `64:ff9b:1:${hex(a).slice(0, 4)}:${hex(a).slice(4, 6)}:${hex(a).slice(6)}00::`],
    ['NAT64 of /56', (a) => `64:ff9b:1:${hex(a).slice(0, 2)}:${hex(a).slice(2, 4)}:${hex(a).slice(4, 8)}::`],
    ['NAT64 of /64', (a) => `64:ff9b:1:0:${hex(a).slice(0, 2)}:${hex(a).slice(2, 6)}:${hex(a).slice(6)}00::`],
    ['6to4', (a) => `2002:${hex(a).slice(0, 4)}:${hex(a).slice(4)}::1`],
    ['server of Teredo', (a) => `2001:0:${hex(a).slice(0, 4)}:${hex(a).slice(4)}::a247:28f1`],
    ['client of Teredo', (a) => `2001:0:5db8:d70e:0:0:${inverted(a)}`],
    ['ISATAP', (a) => `::5efe:${a}`],
    ['ISATAP, universal', (a) => `::200:5efe:${a}`],
    ['ISATAP, global', (a) => `2606:2800:21f::0:5efe:${a}`],
    ['ISATAP, local', (a) => `fd12:3456::200:5efe:${a}`],
    ['ISATAP of a group', (a) => `2606:2800:21f::300:5efe:${a}`],
  ];
  const inner = ['10.1.2.3', '172.16.0.1', '192.168.1.1', '100.64.0.1', '127.0.0.1'];
  const never = ['169.254.169.254', '169.254.170.2', '100.100.100.200', '168.63.129.16'];
  const wide = ['https://*', 'http://*', '::/0'];
  for (const [name, write] of forms) {
    const admitted = (allow: string[], address: string) => admits(allow, `http://[${write(address)}]/`);
    t.equal(admitted(wide, '93.184.215.14'), true, `${name}: a public address`);
    for (const address of [...inner, ...never]) t.equal(admitted(wide, address), false, `${name} ${address}`);
    for (const address of inner)
      t.equal(admitted(['::/0', '0.0.0.0/0'], address), true, `${name} ${address}`);
    for (const address of never)
      t.equal(admitted(['::/0', '0.0.0.0/0'], address), false, `${name} ${address}`);
    t.equal(admitted(['0.0.0.0/0', 'https://*'], '93.184.215.14'), false, `${name} is no IPv4 address`);
  }
  for (const address of [...inner, ...never]) {
    t.equal(admits(wide, `http://[::ffff:${address}]/`), false, `mapped ${address}`);
  }
});

function inverted(address: string): string {
  const bytes = address.split('.').map((byte) => 255 - Number(byte));
  return bytes.join('.');
}

t.test('a socket connects only to an allowed address', async (t) => {
  const server = createServer((_, res) => res.end('here'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const origin = `http://localhost:${port}`;
  const get = async (allow: string[]): Promise<number | undefined> => {
    const url = new URL(origin);
    const sent = request(url, { ...new TargetPolicy(allow).guard(url), agent: false });
    sent.end();
    const [response] = await once(sent, 'response');
    response.resume();
    return response.statusCode;
  };
  t.equal(await get(['127.0.0.0/8']), 200);
  t.equal(await get([origin, '127.0.0.0/8', '::1']), 200);
  await t.rejects(get([origin]), { name: 'TargetRefused', message: /localhost is at .*not allowed/ });
  await t.rejects(get(['10.0.0.0/8']), TargetRefused);
});

t.test('a name with addresses of both kinds leads to those that are allowed', async (t) => {
  t.plan(2);
  const addresses = [
    { address: '10.1.2.3', family: 4 },
    { address: '93.184.215.14', family: 4 },
  ];
  const resolve = ((_name: string, _options: object, done: (...found: unknown[]) => void) =>
    done(null, addresses)) as unknown as typeof lookup;
  const guard = new TargetPolicy(['http://a.example'], resolve).guard(new URL('http://a.example/'));
  for (const all of [true, false])
    guard.lookup('a.example', { all }, (...found) =>
      t.strictSame(found, all ? [null, addresses.slice(1)] : [null, '93.184.215.14', 4]),
    );
});

t.test('an entry that allows nothing is found, with the address that is missing', (t) => {
  const cases: [allow: string[], found: [entry: string, address: string, isForbidden: boolean][]][] = [
    [['https://erp.example.com', 'https://*', '10.0.0.0/8', '192.0.2.7', '::/0', '0.0.0.0/0'], []],
    [['https://10.0.0.7'], [['https://10.0.0.7', '10.0.0.7', false]]],
    [['https://10.0.0.7', '10.0.0.0/24'], []],
    [['https://10.0.0.7', '10.1.0.0/16'], [['https://10.0.0.7', '10.0.0.7', false]]],
    [['http://localhost:8080'], [['http://localhost:8080', '127.0.0.1', false]]],
    [['http://app.localhost:8080', '127.0.0.0/8'], []],
    [['https://[fd00::1]'], [['https://[fd00::1]', 'fd00::1', false]]],
    [['https://[::1]', '::1'], []],
    [['https://169.254.169.254', '0.0.0.0/0'], [['https://169.254.169.254', '169.254.169.254', true]]],
    [['169.254.169.254'], [['169.254.169.254', '169.254.169.254', true]]],
    [['169.254.0.0/16'], [['169.254.0.0/16', '169.254.0.0/16', true]]],
    [['https://8.8.8.8'], []],
  ];
  for (const [allow, found] of cases)
    t.strictSame(
      uselessEntries(allow).map(({ entry, address, isForbidden }) => [entry, address, isForbidden]),
      found,
      allow.join(' '),
    );
  const policy = new TargetPolicy(['https://10.0.0.7']);
  t.throws(() => policy.guard(new URL('https://10.0.0.7')), { message: /its network must be listed$/ });
  t.throws(() => policy.guard(new URL('https://169.254.1.1')), { message: /, whatever is listed$/ });
  t.end();
});
