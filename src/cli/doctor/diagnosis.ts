/** One thing that was looked at. */
export interface Diagnosis {
  /** What it is: `config`, `partition eu-west/production-2026`. */
  check: string;
  /** `warning`: it works, but not for ever, or not as well as it could. */
  verdict: 'good' | 'warning' | 'bad';
  detail: string;
  /** What to do; there whenever the verdict is not good. */
  remedy?: string;
}

export function good(check: string, detail: string): Diagnosis {
  return { check, verdict: 'good', detail };
}

export function warning(check: string, detail: string, remedy: string): Diagnosis {
  return { check, verdict: 'warning', detail, remedy };
}

export function bad(check: string, detail: string, remedy: string): Diagnosis {
  return { check, verdict: 'bad', detail, remedy };
}
