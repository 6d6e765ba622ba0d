#!/usr/bin/env -S node --disable-sigusr1 --max-semi-space-size=16 --max-old-space-size=2000
import './base/inspector.ts';
import { parseArgs } from 'node:util';
import { OperatorError } from './base/errors.ts';
import { endRefused } from './base/logger.ts';
import { versionLine } from './base/package.ts';
import { USAGE } from './main/usage.ts';

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      config: { type: 'string' },
      'check-config': { type: 'boolean' },
      version: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) return void process.stdout.write(USAGE);
  if (values.version) return void process.stdout.write(`${versionLine()}\n`);
  if (values.config === undefined)
    throw new OperatorError(`name the config file with --config FILE\n\n${USAGE}`);
  if (values['check-config']) {
    const { checkConfig } = await import('./cli/daemon/checkConfig.ts');
    process.exitCode = (await checkConfig(values.config)) ? 0 : 1;
    return;
  }
  const { serve } = await import('./main/serve.ts');
  await serve(values.config);
}

main().catch((error: unknown) => endRefused('pdfseald', error));
