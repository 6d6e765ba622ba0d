/** Another daemon of the same log. */
export interface OtherNode {
  /** Its process and machine, for people. */
  name: string;
  role: 'front' | 'sealing';
  version: string;
}

export interface RequestCounts {
  /** Number of requests of each client since the last call. Requests that are not consumed are returned by the next call. */
  uncountedElsewhere(): Iterable<readonly [clientId: string, requests: number]>;
  /** Counts what another node has counted. */
  countElsewhere(clientId: string, requests: number): void;
}

/**
 * Messages between the daemons of one log. All of them are hints: they can fail to come, and any process that may connect to the database
 * can send them.
 */
export interface Nodes {
  /** Sends the others every second what was counted, and receives their counts. */
  share(counts: RequestCounts): void;
  /** Nodes heard from in the last seconds. A node that waits for its turn is silent. */
  others(): OtherNode[];
  /** Calls back if far more messages arrive than nodes send. Then, the others are ignored for some seconds at a time. */
  onFlood(listener: () => void): void;
}
