import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { hostname, userInfo } from 'node:os';
import { pipeline } from 'node:stream/promises';
import { fromEnvironment } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { ROLES } from '../../base/people.ts';
import { counted } from '../../base/phrases.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import type { HostPort, SocketPath } from '../../web/address.ts';
import { command, option } from '../command.ts';
import { CONFIG } from '../options.ts';
import { isJson, note, print, printJson, printResult } from '../terminal.ts';
import { AdminRefusal, askAdministration } from './adminClient.ts';

/** Local port of the tunnels in the examples, on the user's machine. */
const TUNNEL_PORT = 8443;

const loginCommand = command('login', {
  summary: 'print a one-time link to the console for a person',
  description:
    'Prints a link that opens the console once, within five minutes, and how to reach the console from another machine. What the ' +
    'person does is recorded in the audit trail with that name. An auditor reads; an operator also requests backups, runs drills and resends webhooks; ' +
    'an administrator does everything that the console offers.',
  options: [
    CONFIG,
    option('--as <name>', 'whom the link is for', { required: true }),
    option('--role <role>', 'what the person may do', { choices: ROLES, required: true }),
  ],
  examples: [
    'sudo pdfseal console login --as anna --role auditor',
    "sudo pdfseal console login --as anna --role operator --json | jq -r '.url'",
  ],
  async run({ config: file, as, role }) {
    const config = loadConfig(file, { files: 'unused' });
    const listen = listenOf(config);
    const link = await makeLink(config, as, role);
    const port = 'port' in listen ? listen.port : TUNNEL_PORT;
    const url = urlOf(config, port, link);
    const tunnel = `ssh -L ${port}:${'path' in listen ? listen.path : `${listen.host}:${listen.port}`} ${hostname()}`;
    if (isJson()) return printJson({ url, tunnel, name: link.name, role: link.role });
    note(`for ${link.name}, ${link.role}; it works once, within five minutes`);
    note(`on the machine of ${link.name}, first: ${tunnel}`);
    print(url);
  },
});

const logoutCommand = command('logout', {
  summary: 'end sessions of the console',
  description: 'Ends every session of the console at once, or those of one person, and all unused links.',
  options: [
    CONFIG,
    option('--as <name>', 'the sessions of this person'),
    option('--all', 'all sessions', { conflicts: 'as' }),
  ],
  examples: ['sudo pdfseal console logout --as anna', 'sudo pdfseal console logout --all'],
  misuse: ({ as: name, all }) =>
    name === undefined && !all ? 'name a person with --as, or use --all' : undefined,
  async run({ config: file, as: name }) {
    const { admin } = loadConfig(file, { files: 'unused' });
    const query = name === undefined ? '' : `?${new URLSearchParams({ name })}`;
    const answer = await askConsole<{ sessions: number }>(admin.socket, `/console/logout${query}`);
    printResult(answer, () => note(`ended ${counted(answer.sessions, 'session')}`));
  },
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
    const link = await makeLink(config, fromEnvironment('SUDO_USER') ?? userInfo().username, 'administrator');
    const port = 'port' in listen ? listen.port : await lead(listen);
    const url = urlOf(config, port, link);
    if (isJson()) return printJson({ url, name: link.name, role: link.role });
    note('it works once, within five minutes; Ctrl-C closes this connection to the console');
    print(url);
  },
});

interface Link {
  link: string;
  name: string;
  role: string;
}

function makeLink({ admin }: Config, name: string, role: string): Promise<Link> {
  return askConsole<Link>(admin.socket, `/console/link?${new URLSearchParams({ name, role })}`);
}

async function askConsole<Answer>(socket: SocketPath, path: string): Promise<Answer> {
  try {
    return await askAdministration<Answer>(socket, 'POST', path);
  } catch (error) {
    if (!(error instanceof AdminRefusal) || error.code !== 'insufficient_scope') throw error;
    throw new OperatorError(error.message, { cause: error, code: error.code, remedy: 'run this as root' });
  }
}

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
function urlOf({ environment }: Config, port: number, { link }: Link): string {
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
