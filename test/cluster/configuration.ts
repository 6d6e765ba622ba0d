/** The three machines of a cluster, and how etcd and Patroni are set up on them, as `docs/operate/postgresql.md` has it. */
import { programs } from '../support/postgres.ts';

export const NODES = ['n1', 'n2', 'n3'] as const;
export type NodeName = (typeof NODES)[number];

export const NETWORK = '10.77.0';
export const PASSWORD = 'a password of this cluster';

export interface Certificate {
  certificateFile: string;
  keyFile: string;
}

export function addressOf(node: NodeName): string {
  return `${NETWORK}.${NODES.indexOf(node) + 1}`;
}

/** On the command line of etcd. */
export function etcdOptions(node: NodeName, data: string): Record<string, string> {
  const [client, peer] = [`http://${addressOf(node)}:2379`, `http://${addressOf(node)}:2380`];
  const members = NODES.map((one) => `${one}=http://${addressOf(one)}:2380`).join();
  return {
    name: node,
    'data-dir': data,
    'listen-client-urls': client,
    'advertise-client-urls': client,
    'listen-peer-urls': peer,
    'initial-advertise-peer-urls': peer,
    'initial-cluster': members,
    'heartbeat-interval': '250',
    'election-timeout': '2500',
    'pre-vote': 'true', // One that was cut off ends no other's turn when it is back.
    'enable-v2': 'true',
    'unsafe-no-fsync': 'true', // Of etcd nothing is expected here that a crash of this machine could undo.
  };
}

/** A commit waits for a synchronous standby, always. The folder of sockets is not in that of the data, which is copied while the server runs. */
export function patroniConfig(
  node: NodeName,
  { data, sockets, tls }: { data: string; sockets: string; tls: Certificate },
): object {
  const host = addressOf(node);
  return {
    scope: 'pdfseal',
    name: node,
    restapi: { listen: `${host}:8008`, connect_address: `${host}:8008` },
    // Over version 3 of the API, Patroni 3.0.2 reads from one server what may be old, and writes that it leads whatever is there: a former primary
    // that is back takes the lead from the one that was promoted. Over version 2, it writes so only where its own name is.
    etcd: { hosts: NODES.map((one) => `${addressOf(one)}:2379`).join() },
    bootstrap: {
      dcs: {
        ttl: 20,
        loop_wait: 2,
        retry_timeout: 8, // Longer than etcd takes to choose another leader: a primary that could not wait so long would step down.
        synchronous_mode: true,
        synchronous_mode_strict: true,
        postgresql: { use_pg_rewind: true },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C.UTF-8' }, 'data-checksums'],
    },
    postgresql: {
      listen: `${host}:5432`,
      connect_address: `${host}:5432`,
      data_dir: data,
      bin_dir: programs(),
      // A former primary that cannot be rewound is made anew, as an administrator would.
      remove_data_directory_on_rewind_failure: true,
      remove_data_directory_on_diverged_timelines: true,
      authentication: {
        superuser: { username: 'postgres', password: PASSWORD },
        replication: { username: 'replicator', password: PASSWORD },
        rewind: { username: 'rewinder', password: PASSWORD },
      },
      pg_hba: [
        'local all postgres peer',
        'host all postgres,rewinder samenet scram-sha-256',
        'host replication replicator samenet scram-sha-256',
        'hostssl pdfseal pdfseal,front samenet scram-sha-256',
      ],
      parameters: {
        unix_socket_directories: sockets,
        shared_buffers: '32MB',
        ssl: 'on',
        ssl_cert_file: tls.certificateFile,
        ssl_key_file: tls.keyFile,
        wal_log_hints: 'on',
        max_connections: 100,
      },
    },
  };
}
