/** The console: what the daemon opens of it where the configuration has the table `[console]`. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { formatAddress, type ListenAddress } from '../net/address.ts';
import { listenAt } from '../net/listen.ts';
import { readAssets } from './assets.ts';
import { ConsoleApp, type ConsoleAppOptions } from './consoleApp.ts';
import { Streams } from './liveStreams.ts';
import { History } from './loadHistory.ts';
import { type ScreenSources, screensOf } from './screens.ts';
import { Sessions } from './sessions.ts';

const HEAD_BYTES_MAX = 16 * 1024;
const HEAD_MS_MAX = 5_000;
const REQUEST_MS_MAX = 30_000;
/** Longer than the beat of the streams: whoever takes nothing for so long is gone. */
const SILENCE_MS_MAX = 60_000;
/** Four for each of fifty open consoles, and some more. */
const CONNECTIONS_MAX = 256;

export type ConsoleOptions = Omit<
  ConsoleAppOptions,
  'screens' | 'sessions' | 'streams' | 'assets' | 'store'
> &
  Omit<ScreenSources, 'history' | 'sessions'> & {
    /** How often open pages are told that there is news, milliseconds. */
    beatMs?: number;
  };

export class Console {
  readonly sessions = new Sessions();
  readonly history: History;
  readonly #listen: ListenAddress;

  constructor(listen: ListenAddress, clock: () => number) {
    this.#listen = listen;
    this.history = new History(clock);
  }

  /** Serves the console at its address. Throws OperatorError if the address is taken, or if other users could replace the socket. */
  async open(options: ConsoleOptions): Promise<{ close(): Promise<void> }> {
    const { sessions, history } = this;
    const streams = new Streams(sessions, options.beatMs);
    const screens = screensOf({ ...options, history, sessions });
    const app = new ConsoleApp({ ...options, screens, sessions, streams, assets: readAssets() });
    const server = createServer({
      maxHeaderSize: HEAD_BYTES_MAX,
      headersTimeout: HEAD_MS_MAX,
      requestTimeout: REQUEST_MS_MAX,
      connectionsCheckingInterval: 1_000,
    });
    server.timeout = SILENCE_MS_MAX;
    server.maxConnections = CONNECTIONS_MAX;
    server.on('request', (request, response) => void app.handle(request, response));
    try {
      await listenAt(server, this.#listen, 'console.listen');
    } catch (error) {
      streams.close();
      throw error;
    }
    const address = formatAddress(this.#listen);
    options.logger.info({ address }, 'the console is open');
    return {
      async close() {
        const closed = once(server, 'close');
        server.close();
        streams.close();
        server.closeAllConnections();
        await closed;
      },
    };
  }
}
