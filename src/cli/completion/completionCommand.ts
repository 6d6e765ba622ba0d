import type { Command } from 'commander';
import { ownProcess } from '../../base/env.ts';
import { argument, command } from '../command.ts';
import { print } from '../terminal.ts';
import { candidatesFor } from './candidates.ts';
import { FILES, SCRIPTS, SHELLS } from './scripts.ts';

export const completionCommand = command('completion', {
  description:
    'Prints the completion script for a shell. It completes commands, options, their values, and the partitions and keys that the ' +
    'config file names. The Debian package installs all three scripts.',
  arguments: [argument('<shell>', 'which shell', { choices: SHELLS })],
  withoutJson: true,
  examples: [
    'source <(pdfseal completion bash)',
    'pdfseal completion zsh >/usr/share/zsh/vendor-completions/_pdfseal',
    'pdfseal completion fish >~/.config/fish/completions/pdfseal.fish',
  ],
  run: (_, shell) => void ownProcess().stdout.write(SCRIPTS[shell]),
});

/** Answers a shell: a line for each word that fits, its meaning behind a tab. */
export function answerShell(program: Command, words: readonly string[]): void {
  const { words: found, files } = candidatesFor(program, words);
  for (const { word, meaning } of found) ownProcess().stdout.write(`${word}\t${oneLine(meaning)}\n`);
  if (files) print(FILES);
}

function oneLine(text: string): string {
  const [first = ''] = text.split(/(?<=[.:]) |\n/);
  return first.replaceAll(/[\t\r]/g, ' ');
}
