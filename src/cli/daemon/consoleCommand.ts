import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { hostname, userInfo } from 'node:os';
import { pipeline } from 'node:stream/promises';
import { fromEnvironment } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { counted } from '../../base/phrases.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { endConsoleSessions, linkConsole } from '../../ops/consoleOperations.ts';
import type { HostPort, SocketPath } from '../../web/address.ts';
import { command, option } from '../command.ts';
import { operationCommand } from '../operationCommand.ts';
import { CONFIG } from '../options.ts';
import { isJson, note, print, printJson, printResult } from '../terminal.ts';
import { askOperation } from './operationClient.ts';

/** Local port of the tunnels in the examples, on the user's machine. */
const TUNNEL_PORT = 8443;

const loginCommand = operationCommand('login', linkConsole, {
  summary: 'print a one-time link to the console for a person',
  description:
    'Prints a link that opens the console once, within five minutes, and how to reach the console from another machine. What the ' +
    'person does is recorded in the audit trail with that name. An auditor reads; an operator also requests backups, runs drills and resends webhooks; ' +
    'an administrator does everything that the console offers.',
  names: { name: 'as' },
  examples: [
    'sudo pdfseal console login --as anna --role auditor',
    "sudo pdfseal console login --as anna --role operator --json | jq -r '.url'",
  ],
  find(_, config) {
    // Throws before a link is made that nobody could use.
    listenOf(config);
    return {};
  },
  show(link, config) {
    const listen = listenOf(config);
    const port = 'port' in listen ? listen.port : TUNNEL_PORT;
    const url = urlOf(config, port, link);
    const tunnel = `ssh -L ${port}:${'path' in listen ? listen.path : `${listen.host}:${listen.port}`} ${hostname()}`;
    if (isJson()) return printJson({ url, tunnel, name: link.name, role: link.role });
    note(`for ${link.name}, ${link.role}; it works once, within five minutes`);
    note(`on the machine of ${link.name}, first: ${tunnel}`);
    print(url);
  },
});

const logoutCommand = operationCommand('logout', endConsoleSessions, {
  summary: 'end sessions of the console',
  description: 'Ends every session of the console at once, or those of one person, and all unused links.',
  names: { name: 'as' },
  options: [option('--all', 'all sessions', { conflicts: 'as' })],
  examples: ['sudo pdfseal console logout --as anna', 'sudo pdfseal console logout --all'],
  misuse: ({ all }, { name }) =>
    name === undefined && !all ? 'name a person with --as, or use --all' : undefined,
  show: (answer) => printResult(answer, () => note(`ended ${counted(answer.sessions, 'session')}`)),
});

export const consoleCommand = command('console', {
  description:
    'Opens the console of the running daemon for you, on this machine: prints a link that works once, and forwards a loopback port to ' +
    'the console until Ctrl-C. The name on record is that of your login, the role administrator. Needs the table [console] in the ' +
    'configuration; root and the user of the daemon can do this.',
  options: [CONFIG],
  commands: [loginCommand, logoutCommand],
  examples: ['sudo pdfseal console --config /etc/pdfseal/production.toml'],
  async run({ config: file }) {
    const config = loadConfig(file, { files: 'unused' });
    const listen = listenOf(config);
    const name = fromEnvironment('SUDO_USER') ?? userInfo().username;
    const link = await askOperation(linkConsole, config.admin.socket, { name, role: 'administrator' });
    const port = 'port' in listen ? listen.port : await lead(listen);
    const url = urlOf(config, port, link);
    if (isJson()) return printJson({ url, name: link.name, role: link.role });
    note('it works once, within five minutes; Ctrl-C closes this connection to the console');
    print(url);
  },
});

function listenOf({ console, file }: Config): SocketPath | HostPort {
  if (console !== undefined) return console.listen;
  throw new OperatorError(`${file} has no table [console]`, {
    code: 'not_found',
    remedy: 'add the line [console] to the file, and restart the daemon',
  });
}

/**
 * Uses a host name of its own for each environment: browsers resolve every name in .localhost to loopback (RFC 6761), and keep the cookies
 * of different names apart, but not those of different ports.
 */
function urlOf({ environment }: Config, port: number, { link }: { link: string }): string {
  return `http://${environment}.localhost:${port}/login/${link}`;
}

/** Forwards a free port of loopback to the socket for the lifetime of this process. Returns the port. */
async function lead({ path }: SocketPath): Promise<number> {
  const server = createServer((client) => {
    const target = connect(path);
    // Either end may disconnect at any time.
    pipeline(client, target, client).catch(() => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}
