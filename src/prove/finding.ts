/** How a check ended, and one line for people why. */
export interface Finding {
  outcome: 'passed' | 'failed' | 'unknown';
  detail: string;
}

export function passed(detail: string): Finding {
  return { outcome: 'passed', detail };
}

export function failed(detail: string): Finding {
  return { outcome: 'failed', detail };
}

/** Neither: what it would take to tell is not at hand. */
export function unknown(detail: string): Finding {
  return { outcome: 'unknown', detail };
}
