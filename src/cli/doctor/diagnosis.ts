/** The result of one check of the doctor. */
export interface Diagnosis {
  /** What was checked: `config`, `partition eu-west/production-2026`. */
  check: string;
  /** `warning`: it works, but needs attention. */
  verdict: 'good' | 'warning' | 'bad';
  detail: string;
  /** What to do. Present unless the verdict is good. */
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
