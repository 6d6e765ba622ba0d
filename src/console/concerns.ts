/** Everything that needs attention: each finding, with its remedy. */
import type { Found } from '../health/healthFinding.ts';
import type { AdminStatus } from '../health/statusSchema.ts';
import { english } from './english.ts';
import { capitalized } from './values.ts';

export interface Concern {
  /** `bad`: documents cannot be sealed, or soon cannot be. */
  level: 'bad' | 'warning';
  what: string;
  detail: string;
  remedy: string;
  /** The page of the console that helps. */
  page?: keyof typeof english.pages;
}

/** By the section of the status that has the facts. */
const PAGES: Readonly<Record<string, Concern['page']>> = {
  upkeep: '/care',
  webhooks: '/access/webhooks',
  config: '/care/configuration',
};

/** The worst first. */
export function concernsOf({ findings }: Pick<AdminStatus, 'findings'>): Concern[] {
  return findings.map(present);
}

function present({ severity, section, subject, part, detail, remedy }: Found): Concern {
  const page = PAGES[section];
  return {
    level: levelOf(severity),
    what: subject === part ? english.parts[part] : capitalized(subject),
    detail,
    remedy,
    page,
  };
}

function levelOf(severity: Found['severity']): Concern['level'] {
  return severity === 'critical' ? 'bad' : 'warning';
}

/** How the disk does. */
export function diskLevel({ findings }: Pick<AdminStatus, 'findings'>): Concern['level'] | 'good' {
  const found = findings.find(({ subject }) => subject === 'disk');
  return found ? levelOf(found.severity) : 'good';
}
