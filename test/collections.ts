/** Finds collections in the source that can grow without a bound of their own. */

/** Rooms whose collections strangers or clients can make grow. */
export const REACHED_ROOMS = [
  ...[
    'web',
    'http',
    'console',
    'admin',
    'ops',
    'witness',
    'limits',
    'webhook',
    'source',
    'scan',
    'seal',
    'watch',
    'health',
  ],
];

const DECLARED = /^ *(?:export |readonly |static |const |let |this\.)*(#?\w+)(?=[:= ])/;
const GROWS = [
  // It begins empty.
  /= (?:\w.* \?\? )?new (?:Map|Set)\b(?:<.*>)?\(\)/,
  /(?:\[\]|\bArray<.*>)(?: \| undefined)? = \[\];/,
  // A field that is filled elsewhere.
  /^ {2}(?:readonly |static )*#?\w+: (?:Map|Set|Array)</,
  /^ {2}#\w+: (?!readonly ).*\[\];/,
  // Each of its values can grow.
  /= new (?:Weak)?Map<.*(?:\[\]|\b(?:Map|Set|Array)<.*>)>\(/,
  // What waits in it can grow.
  /= (?:\w.* \?\? )?(?:new SlotQueue\(|oneAtATime\(\))/,
];

/** The names of such collections: of fields, of variables, of parts of another collection. A name that is there twice is found once. */
export function growingCollections(text: string): string[] {
  const lines = text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '').split('\n');
  const found = lines.filter((line) => GROWS.some((pattern) => pattern.test(line)));
  return [...new Set(found.map((line) => DECLARED.exec(line)?.[1] ?? line.trim()))];
}

/** Why a collection needs no bound of its own. */
export const BOUNDED_ELSEWHERE: Readonly<Record<string, readonly string[]>> = {
  'one for each open connection, which the limits of its server bound': [
    ...['web/admission.ts #known', 'web/admission.ts #strangers', 'web/admission.ts #holders'],
    ...['web/connectionLimits.ts #silent', 'web/connectionLimits.ts #strangers'],
    ...['web/connectionLimits.ts #idle', 'web/connectionLimits.ts #byAddress'],
    'web/connectionLimits.ts #byPeer',
  ],
  'one for each request under way, of which a connection has one, or line of a batch, which has a place': [
    ...['http/idempotency.ts #held', 'http/readSlots.ts slots', 'http/requestBody.ts discarding'],
    'seal/pending.ts #waiters',
    ...['seal/remoteSealer.ts #waiters', 'seal/remoteSealer.ts waiters', 'console/proposals.ts #serially'],
    ...['ops/drills.ts serially', 'watch/canary.ts #serially'],
  ],
  'a place was taken before: of an upload or fetch, a batch, a query, a page': [
    ...['http/timestampRoute.ts queue', 'console/liveStreams.ts #open', 'console/pageSlots.ts #underWay'],
    ...[
      'scan/connectionPool.ts #waiting',
      'http/lineSlots.ts #places',
      'http/lineSlots.ts #shared',
      'http/lineSlots.ts #beginning',
    ],
  ],
  'BULK_LINES_MAX and the places of lines': [
    ...['http/bulkRoute.ts #underWay', 'http/bulkRoute.ts #patience', 'http/bulkRoute.ts #answers'],
  ],
  'the bytes of the request or page in which it is': [
    ...['http/listQuery.ts seen', 'http/multipart/headers.ts fields', 'http/multipart/headers.ts parameters'],
    ...['console/auditRecords.ts records', 'witness/sshAgent.ts keys'],
  ],
  'queue_jobs_max, which the sealer holds before it accepts a job': [
    ...['seal/pendingJobs.ts #byId', 'seal/pendingJobs.ts #ofClients'],
    ...['seal/sealQueue.ts #others', 'seal/sealQueue.ts taken', 'seal/remoteSealer.ts #accepting'],
    ...['seal/fetching.ts #pauses', 'seal/fetching.ts #running', 'seal/fetching.ts #slots'],
    ...['seal/pendingJobs.ts left', 'seal/pendingJobs.ts failed', 'watch/arrivalFeed.ts known'],
  ],
  'admitRecord of the sealer: clients leave no more records while 10,000 wait, and administrators act by hand':
    ['seal/sealQueue.ts #records'],
  'one for each entry of the configuration': [
    ...['web/tls.ts #servers', 'http/server.ts servers', 'web/egressServer.ts #underWay'],
    ...['limits/policies.ts #quotas', 'limits/policies.ts #clients'],
    ...['ops/drills.ts #withdrawn', 'ops/drills.ts #queues', 'console/sessions.ts #begun'],
    ...['witness/heldCheckpoints.ts #notes', 'witness/witness.ts #underWay'],
    ...['witness/witness.ts #renewedAt', 'witness/witness.ts #alarmed'],
  ],
  'made once, when the program starts': [...['console/assets.ts byPath', 'http/app.ts literals']],
  'one for each choice of a page, or for each code of bounded counts': [
    ...['console/nowScreen.ts shared', 'console/loadHistory.ts failures'],
  ],
  'one for each client that an administrator gave a key': [
    ...['limits/rates.ts #buckets', 'limits/quotas.ts #counts', 'watch/arrivalFeed.ts clients'],
  ],
  'one for each key or secret that an administrator made, with a record each, and did not look at': [
    'console/newSecrets.ts #unshown',
  ],
  'one for each endpoint, of which a client can have few': [
    ...['webhook/deliver.ts #queues', 'ops/apiKeyOperations.ts ended', 'ops/credentials.ts found'],
  ],
  'in_flight_max, and a read of BUFFER_DELIVERIES': [
    ...['webhook/deliver.ts #attempts', 'webhook/endpointQueue.ts inFlight'],
    'webhook/endpointQueue.ts buffer',
  ],
  'the requests of this process, which their senders bound': [
    ...['web/httpClient.ts #underWay', 'watch/witnessing.ts #underWay'],
  ],
  'connections_max of the scanner': ['scan/connectionPool.ts #idle'],
  'the pieces of one packet: reading pauses until they are taken': ['scan/documentScan.ts #waiting'],
  'as many batches as are signed at the same time': [
    'seal/pipeline.ts #flights',
    'seal/signing.ts #onChangeOver',
  ],
  'the jobs that wait in the store, which queue_jobs_max bounds': ['seal/openSealer.ts sealable'],
  CARRIED_MAX: ['watch/witnessMemory.ts #carried'],
  'as many as one sweep takes': ['watch/sweep.ts expired'],
};
