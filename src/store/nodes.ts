/** Another daemon of the same log. */
export interface OtherNode {
  /** Its process and machine, for people. */
  name: string;
  role: 'front' | 'sealing';
  version: string;
}

/** Who counts requests of clients. */
export interface RequestCounts {
  /** How many requests each client sent since this was last asked. What is not taken is told the next time. */
  uncountedElsewhere(): Iterable<readonly [clientId: string, requests: number]>;
  /** Counts what another node has counted. */
  countElsewhere(clientId: string, requests: number): void;
}

/** What the daemons of one log tell each other. All of it is a hint: it can fail to come, and whoever may connect to the database can say it. */
export interface Nodes {
  /** Tells the others every second what was counted, and hears it from them. */
  share(counts: RequestCounts): void;
  /** Those that were heard of in the last seconds. One that waits for its turn says nothing. */
  others(): OtherNode[];
  /** Calls back when somebody says far more than nodes do. Then, the others are not heard for some seconds at a time. */
  onFlood(listener: () => void): void;
}
