/** Exit statuses of commands. `unknown` separates "this is not so" from "this cannot be determined", which a script must not confuse. */
export const EXIT = {
  ok: 0,
  failed: 1,
  unknown: 2,
  attention: 2,
  usage: 64,
  software: 70,
  brokenPipe: 141,
} as const;

export type ExitStatus = (typeof EXIT)[keyof typeof EXIT];

/** The meaning of each status: the one table that help and manual pages print, and that docs/operate/commands.md must match. */
export const EXIT_MEANINGS: Readonly<Record<ExitStatus, string>> = {
  0: 'success; a command that checks something found it good',
  1: 'failure, and standard error says why; a command that checks something found it bad',
  2: 'undecided: verify, audit verify, check or repair-index cannot tell, or doctor found something to attend to',
  64: 'wrong usage, or a Node.js that is too old; nothing was done',
  70: 'an internal error of pdfseal, or a write to the store or of the output that failed',
  141: 'the reader of the output closed it',
};

export const EXIT_STATUSES = Object.keys(EXIT_MEANINGS).map(Number) as ExitStatus[];

/** Meanings of the statuses of one command, if they are more exact than the table. */
export type OwnMeanings = Partial<Record<0 | 1 | 2, string>>;

const OF_ANY_COMMAND: OwnMeanings = { 0: 'done', 1: 'failed, and standard error says why' };

/** The exit statuses of a command, with their meanings. */
export function exitMeaningsOf(own: OwnMeanings): [status: ExitStatus, meaning: string][] {
  const meanings: Partial<Record<ExitStatus, string>> = {
    ...OF_ANY_COMMAND,
    ...own,
    64: 'wrong usage',
    70: EXIT_MEANINGS[70],
  };
  return EXIT_STATUSES.flatMap((status) => {
    const meaning = meanings[status];
    return meaning === undefined ? [] : [[status, meaning] as [ExitStatus, string]];
  });
}
