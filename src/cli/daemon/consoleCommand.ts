import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { hostname, userInfo } from 'node:os';
import { pipeline } from 'node:stream/promises';
import { Command, Option } from 'commander';
import { fromEnvironment } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { ROLES } from '../../base/people.ts';
import { counted } from '../../base/phrases.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import type { HostPort, SocketPath } from '../../net/address.ts';
import { explain } from '../help.ts';
import { configOption } from '../options.ts';
import { isJson, note, print, printJson } from '../terminal.ts';
import { AdminRefusal, askAdministration } from './adminClient.ts';

/** Where the tunnels in the examples end, on the machine of the person. */
const TUNNEL_PORT = 8443;

export function consoleCommand(): Command {
  const command = explain(
    new Command('console')
      .description(
        'Opens the console of the running daemon for you, on this machine: prints a link that works once, and forwards a loopback port to ' +
          'the console until Ctrl-C. The name on record is that of your login, the role administrator. Needs the table [console] in the ' +
          'configuration; root and the user of the daemon can do this.',
      )
      .addOption(configOption())
      .action(openHere),
    { examples: ['sudo pdfseal console --config /etc/pdfseal/production.toml'] },
  );
  return command.enablePositionalOptions().addCommand(loginCommand()).addCommand(logoutCommand());
}

function loginCommand(): Command {
  return explain(
    new Command('login')
      .summary('print a one-time link to the console for a person')
      .description(
        'Prints a link that opens the console once, within five minutes, and how to reach the console from another machine. What the ' +
          'person does is recorded in the audit trail with that name. An auditor reads; an operator also asks for backups, runs drills and sends webhooks again; ' +
          'an administrator does everything that the console offers.',
      )
      .addOption(configOption())
      .addOption(new Option('--as <name>', 'whom the link is for').makeOptionMandatory())
      .addOption(
        new Option('--role <role>', 'what the person may do').choices([...ROLES]).makeOptionMandatory(),
      )
      .action(login),
    {
      examples: [
        'sudo pdfseal console login --as anna --role auditor',
        "sudo pdfseal console login --as anna --role operator --json | jq -r '.url'",
      ],
    },
  );
}

function logoutCommand(): Command {
  return explain(
    new Command('logout')
      .summary('end sessions of the console')
      .description(
        'Ends every session of the console at once, or those of one person, and all links that nobody has opened yet.',
      )
      .addOption(configOption())
      .addOption(new Option('--as <name>', 'the sessions of this person'))
      .addOption(new Option('--all', 'the sessions of everybody').conflicts('as'))
      .action(logout),
    { examples: ['sudo pdfseal console logout --as anna', 'sudo pdfseal console logout --all'] },
  );
}

interface LoginOptions {
  config: string;
  as: string;
  role: string;
}

interface Link {
  link: string;
  name: string;
  role: string;
}

async function login({ config: file, as, role }: LoginOptions): Promise<void> {
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
}

async function openHere({ config: file }: { config: string }): Promise<void> {
  const config = loadConfig(file, { files: 'unused' });
  const listen = listenOf(config);
  const link = await makeLink(config, fromEnvironment('SUDO_USER') ?? userInfo().username, 'administrator');
  const port = 'port' in listen ? listen.port : await lead(listen);
  const url = urlOf(config, port, link);
  if (isJson()) printJson({ url, name: link.name, role: link.role });
  else {
    note('it works once, within five minutes; Ctrl-C closes this connection to the console');
    print(url);
  }
}

interface LogoutOptions {
  config: string;
  as?: string;
  all?: true;
}

async function logout(options: LogoutOptions, command: Command): Promise<void> {
  const { config: file, as: name, all } = options;
  if (name === undefined && !all) command.error('error: name a person with --as, or say --all');
  const { admin } = loadConfig(file, { files: 'unused' });
  const query = name === undefined ? '' : `?${new URLSearchParams({ name })}`;
  const answer = await askConsole<{ sessions: number }>(admin.socket, `/console/logout${query}`);
  if (isJson()) return printJson(answer);
  note(`ended ${counted(answer.sessions, 'session')}`);
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
 * A name for each environment: browsers resolve every name in .localhost to loopback (RFC 6761), and keep the cookies of different names
 * apart, but not those of different ports.
 */
function urlOf({ environment }: Config, port: number, { link }: Link): string {
  return `http://${environment}.localhost:${port}/login/${link}`;
}

/** Leads a free port of loopback to the socket, for as long as this process lives. Returns the port. */
async function lead({ path }: SocketPath): Promise<number> {
  const server = createServer((client) => {
    const target = connect(path);
    // Either end may go away at any time.
    pipeline(client, target, client).catch(() => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}
