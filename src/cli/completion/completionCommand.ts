import { Argument, Command } from 'commander';
import { explain } from '../help.ts';
import { print } from '../terminal.ts';
import { candidatesFor } from './candidates.ts';
import { FILES, SCRIPTS, SHELLS, type Shell } from './scripts.ts';

export function completionCommand(): Command {
  return explain(
    new Command('completion')
      .description(
        'Prints the completion script for a shell. It completes commands, options, their values, and the partitions and keys that the ' +
          'config file names. The Debian package installs all three scripts.',
      )
      .addArgument(new Argument('<shell>', 'which shell').choices(SHELLS))
      .action((shell: Shell) => void process.stdout.write(SCRIPTS[shell])),
    {
      withoutJson: true,
      examples: [
        'source <(pdfseal completion bash)',
        'pdfseal completion zsh >/usr/share/zsh/vendor-completions/_pdfseal',
        'pdfseal completion fish >~/.config/fish/completions/pdfseal.fish',
      ],
    },
  );
}

/** Answers a shell: a line for each word that fits, its meaning behind a tab. */
export function answerShell(program: Command, words: readonly string[]): void {
  const { words: found, files } = candidatesFor(program, words);
  for (const { word, meaning } of found) process.stdout.write(`${word}\t${oneLine(meaning)}\n`);
  if (files) print(FILES);
}

function oneLine(text: string): string {
  const [first = ''] = text.split(/(?<=[.:]) |\n/);
  return first.replaceAll(/[\t\r]/g, ' ');
}
