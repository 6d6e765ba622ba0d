import type { Test } from 'tap';
import { type Installation, PORTS, until } from './installation.ts';

/** Notes the id of each webhook that it gets, on a port of the machine. */
const RECEIVER = `require('http').createServer((q, s) => { q.resume(); require('fs').appendFileSync('/srv/told', q.headers['webhook-id'] + '\\n'); s.end(); }).listen(9900, '127.0.0.1')`;

/** Webhooks of the sandbox go by way of a process that has another user than the daemon, and is started by its socket. */
export async function tryEgress(t: Test, site: Installation): Promise<void> {
  const { machine } = site;
  machine.must(`printf '[webhooks]\\nallow = ["127.0.0.0/8"]\\nretries = ["100ms", "1s", "1s", "1s", "1m"]\\n' >>/etc/pdfseal/sandbox.toml
    systemctl restart pdfseald@sandbox`);
  const receiver = machine.start(`/usr/lib/pdfseald/bin/node -e "${RECEIVER}"`);
  const key = site.admin(
    'sandbox',
    'keys issue --client hooks --organization acme --scopes jobs:create,webhooks:manage',
  );
  const api = `curl -s --fail-with-body -H 'Authorization: Bearer ${key}'`;
  const told = () => new Set(machine.run('cat /srv/told').stdout.split('\n')).size;
  const seal = () =>
    machine.must(
      `${api} -F file=@$(ls /srv/sandbox/*.pdf | head -n 1) -F visibility=private http://127.0.0.1:${PORTS.sandbox}/v1/jobs/seal`,
    );
  machine.must(
    `${api} -H 'Content-Type: application/json' -d '{"url":"http://127.0.0.1:9900/"}' http://127.0.0.1:${PORTS.sandbox}/v1/webhook-endpoints`,
  );
  t.equal(machine.must('stat -c "%U %a" /run/pdfseal-egress/sandbox.sock'), 'pdfseal-sandbox 600');
  seal();
  await until('a webhook is delivered', () => told() > 1);
  const pid = () => machine.must('systemctl show --value --property=MainPID pdfseal-egress@sandbox');
  const first = pid();
  t.notMatch(machine.must(`stat -c %U /proc/${first}`), /^(root|pdfseal.*)$/, 'its user is its own');
  machine.must('systemctl kill --signal=KILL pdfseal-egress@sandbox');
  const before = told();
  seal();
  await until('the next one is delivered', () => told() > before);
  t.not(pid(), first);
  t.equal(machine.run('pgrep -u pdfseal-sandbox -f main/egress').status, 1, 'the daemon starts none itself');
  site.exposesAtMost('pdfseal-egress@sandbox', 10);
  receiver.kill();
}
