/** A real daemon whose console people open with certificates: two of them plan an epoch, and one is sent away. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { askOverTls, signInOverTls } from '../console/overTls.ts';
import {
  issueCertificate,
  issueClient,
  type KeyPair,
  makeAuthority,
  revoke,
} from '../support/certificates.ts';
import { freePort } from '../support/freePort.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

t.test('two people plan an epoch, and a removed or revoked person is signed out', async (t) => {
  const dir = t.testdir();
  const authority = makeAuthority(dir, 'people');
  const server = issueCertificate(dir, 'console', makeAuthority(dir, 'servers'));
  const crl = join(dir, 'people.crl');
  revoke(dir, crl, authority, []);
  const port = await freePort();
  const person = (name: string) =>
    `[[console.tls.people]]\ncertificate_name = "CN=${name}"\nname = "${name}"\nrole = "administrator"\n`;
  const tail = `[console]\n[console.tls]\nlisten = "127.0.0.1:${port}"
certificate_file = "${server.certificateFile}"\nkey_file = "${server.keyFile}"
client_ca_file = "${authority.certificateFile}"\nclient_crl_file = "${crl}"\n${person('anna')}${person('bert')}`;
  const sandbox = await openSandbox({ regions: ['eu', 'us', 'ap'], quorum: 2, tail });
  t.teardown(() => sandbox.close());
  const edit = (from: string, to: string) => {
    const text = readFileSync(sandbox.configFile, 'utf8');
    t.ok(text.includes(from), from);
    writeFileSync(sandbox.configFile, text.replace(from, to));
  };
  const daemon = await sandbox.start();
  const [anna, bert] = ['anna', 'bert'].map((name) => issueClient(dir, name, authority)) as [
    KeyPair,
    KeyPair,
  ];
  const enter = async (as: KeyPair) => {
    const { cookie, token } = await signInOverTls(port, as);
    const post = (path: string, fields: Record<string, string>) =>
      askOverTls(port, 'POST', path, { as, cookie }, { ...fields, token });
    return { post, get: (path: string) => askOverTls(port, 'GET', path, { as, cookie }) };
  };
  const [first, second] = [await enter(anna), await enter(bert)];

  edit('quorum = 2', 'quorum = 1');
  const from = new Date(Date.now() + 48 * 3_600_000).toISOString().slice(0, 16);
  t.match(await first.post('/care/epochs/propose', { act: 'plan', from }), { status: 303 });
  const { text } = await second.get('/care/epochs');
  t.match(text, /lowers the quorum/);
  const proposal = /name="proposal" value="([^"]+)"/.exec(text)?.[1] ?? '';
  t.match(await first.post('/care/epochs/approve', { proposal, sure: 'yes' }), { status: 403 });
  t.match(await second.post('/care/epochs/approve', { proposal, sure: 'yes' }), { status: 303 });
  const result = (await second.get('/care/epochs')).text;
  t.match(result, /The change is made.*Epoch 2.*>planned</s, 'what he sees is what he is told');
  t.match((await first.get('/care/epochs')).text, /Proposed by.*anna.*bert.*The change is made.*>planned</s);
  const config = ['--config', sandbox.configFile];
  const listed = await sandbox.pdfseal(['audit', 'list', '--act', 'epoch', ...config]);
  t.match(listed.stdout, /epoch\.plan +done +console bert \(administrator\), proposed by anna/);
  const exported = join(dir, 'trust.json');
  await until('the log has sealed the plan', async () => {
    await sandbox.pdfseal(['trust', 'export', '--output', exported, ...config]);
    return JSON.parse(readFileSync(exported, 'utf8')).logs[0].epochs.length === 2;
  });

  const doctor = await sandbox.pdfseal(['doctor', ...config]);
  t.match(doctor.stdout, /certificate console\.tls \(server\)/);
  t.match(doctor.stdout, /the daemon serves the certificate of the file \(console\.tls\)/);
  edit(person('anna'), '');
  daemon.child.kill('SIGHUP');
  await until('anna is out', async () => (await first.get('/')).status === 403);
  t.match(await askOverTls(port, 'GET', '/', { as: anna }), {
    status: 403,
    text: /the configuration does not list it/,
  });
  revoke(dir, crl, authority, [bert]);
  daemon.child.kill('SIGHUP');
  await until('bert is out', async () => (await second.get('/')).status === 403);
  t.equal(await daemon.stop(), 0);
});
