import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { newSecret, parseSecret, signatureHeaders } from '../../src/webhook/signature.ts';
import { randomBytes } from '../support/seed.ts';

t.test('the example of the specification gets its signature', async (t) => {
  // github.com/standard-webhooks/standard-webhooks, spec 1.0.0: the values its libraries are tested with.
  const headers = signatureHeaders({
    webhookId: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    sentAt: 1_614_265_330_000,
    body: Buffer.from('{"test": 2432232314}'),
    secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
  });
  t.strictSame(headers, {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
});

t.test('the stock verifier accepts each of several signatures, and no other', async (t) => {
  const secrets = [newSecret(), newSecret()];
  const body = Buffer.from('{"é":"😀"}');
  const headers = signatureHeaders({ webhookId: 'msg_1', sentAt: Date.now(), body, secrets });
  for (const secret of secrets) t.strictSame(new Webhook(secret).verify(body, headers), { é: '😀' });
  t.throws(() => new Webhook(newSecret()).verify(body, headers), /No matching signature/);
  t.throws(() => new Webhook(secrets[0] ?? '').verify(Buffer.from('{}'), headers), /No matching signature/);
});

t.test('secrets of 24 to 64 bytes are accepted, and new ones have 32', async (t) => {
  t.match(newSecret(), /^whsec_[A-Za-z0-9+/]{43}=$/);
  t.equal(parseSecret(newSecret())?.length, 32);
  const of = (bytes: number) => `whsec_${randomBytes(bytes).toString('base64')}`;
  for (const bytes of [24, 64]) t.equal(parseSecret(of(bytes))?.length, bytes);
  const bad = [
    of(23),
    of(65),
    '',
    'whsec_',
    of(32).slice(6),
    `${of(32)} `,
    of(32).replace('whsec', 'WHSEC'),
    'whsec_%%%',
  ];
  for (const secret of bad) t.equal(parseSecret(secret), undefined, secret);
});
