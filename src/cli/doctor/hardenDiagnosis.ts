import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config/config.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { formatAddress } from '../../web/address.ts';
import { instanceOf } from '../systemd.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

const CHECK = 'hardening';

/** Facts about an installed instance of the package on this machine. */
interface Machine {
  instance: string | undefined;
  /** The administrator's units. */
  units: string;
  /** There with cgroup v2 only. */
  controllers: string;
}

/** Whether the units of the package do what they say, and what `harden` wrote for them still fits the configuration. */
export function diagnoseHardening(
  config: Config,
  {
    instance = instanceOf(config.file),
    units = '/etc/systemd/system',
    controllers = '/sys/fs/cgroup/cgroup.controllers',
  }: Partial<Machine> = {},
): Diagnosis[] {
  if (instance === undefined) return [];
  return [...diagnoseFilter(controllers), ...diagnoseUnits(config, instance, units)];
}

/** systemd filters addresses with a program in the control group, which version 1 lacks, and starts units nevertheless. */
function diagnoseFilter(controllers: string): Diagnosis[] {
  if (existsSync(controllers)) return [];
  const detail =
    'this machine has no cgroup v2, so systemd ignores IPAddressDeny= and IPAddressAllow= in all units';
  const remedy = 'boot with systemd.unified_cgroup_hierarchy=1, or filter addresses with nftables';
  return [warning('address filter', detail, remedy)];
}

/** Nothing if the instance is not hardened. */
function diagnoseUnits(config: Config, instance: string, folder: string): Diagnosis[] {
  const unit = join(folder, `pdfseald@${instance}`);
  if (!existsSync(`${unit}.service.d/closed.conf`)) return [];
  const again = `run /usr/lib/pdfseald/harden ${instance}`;
  const needs = networkKeys(config);
  const opened = openedBy(`${unit}.socket.d/listen.conf`);
  const wanted = config.http.listen.map((at) => formatAddress(at).replace(/^unix:/, ''));
  const held = [...config.kms.partitions, ...config.timestamp.keys].filter(
    ({ pinSource, signer }) => pinSource !== undefined && signer === undefined,
  );
  const findings = [
    ...(needs.length > 0
      ? [bad(CHECK, `the unit has no network, which ${needs.join(', ')} needs`, again)]
      : []),
    ...(opened.toSorted().join() === wanted.toSorted().join()
      ? []
      : [bad(CHECK, `systemd opens ${opened.join(', ')}, but http.listen is ${wanted.join(', ')}`, again)]),
    ...(held.length > 0
      ? [warning(CHECK, `the daemon itself gets the PIN of ${held.map(kmsKeyId).join(', ')}`, again)]
      : []),
  ];
  return findings.length > 0 ? findings : [good(CHECK, 'the units fit the configuration')];
}

/** As the script `harden` has them. */
function networkKeys({ scan, admin, console, store, http }: Config): string[] {
  return [
    ...(scan.clamd !== undefined && 'port' in scan.clamd ? ['scan.clamd'] : []),
    ...(admin.port === undefined ? [] : ['admin.listen']),
    ...(console !== undefined && 'port' in console.listen ? ['console.listen'] : []),
    ...(console?.tls === undefined ? [] : ['console.tls.listen']),
    ...(store.engine === 'lmdb' ? [] : ['store.engine']),
    ...(http.reusePort ? ['http.reuse_port'] : []),
  ];
}

/** The addresses in the drop-in of the socket. */
function openedBy(dropIn: string): string[] {
  if (!existsSync(dropIn)) return [];
  return [...readFileSync(dropIn, 'utf8').matchAll(/^ListenStream=(.+)$/gm)].map(
    ([, address = '']) => address,
  );
}
