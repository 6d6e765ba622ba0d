/** The console: what the daemon opens of it where the configuration has the table `[console]`. */
import type { RequestListener } from 'node:http';
import type { HostPort, ListenAddress } from '../net/address.ts';
import type { TlsCertificates } from '../net/tls.ts';
import type { TrailCheckOptions } from '../prove/trailCheck.ts';
import { readAssets } from './assets.ts';
import { ConsoleApp, type ConsoleAppOptions } from './consoleApp.ts';
import { type CertificateDoorOptions, certificateDoor, type Door, linkDoor } from './doors.ts';
import { consoleLimits, openOverTls, openPlain } from './listeners.ts';
import { Streams } from './liveStreams.ts';
import { History } from './loadHistory.ts';
import { Proposals } from './proposals.ts';
import { screensOf } from './screens.ts';
import { Sessions } from './sessions.ts';
import type { Sources } from './sources.ts';
import { TrailChecks } from './trailChecks.ts';

export type ConsoleOptions = Omit<
  ConsoleAppOptions,
  'screens' | 'sessions' | 'streams' | 'assets' | 'store'
> &
  Omit<Sources, 'history' | 'sessions' | 'proposals' | 'trailChecks'> & {
    /** Verifies receipts of this log, as anybody with its trust file does. */
    verifier(): TrailCheckOptions['verify'];
    proposalMsMax?: number;
    /** How often open pages are told that there is news, milliseconds. */
    beatMs?: number;
    /** Where people reach it with certificates, if they do. */
    tls?: Pick<CertificateDoorOptions, 'people' | 'date'> & {
      listen: HostPort;
      certificates: TlsCertificates;
    };
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
    const proposals = new Proposals(options);
    const trailChecks = new TrailChecks({ ...options, onEnd: () => streams.beat() });
    const screens = screensOf({ ...options, history, sessions, proposals, trailChecks });
    const app = new ConsoleApp({ ...options, screens, sessions, streams, assets: readAssets() });
    const through =
      (door: Door): RequestListener =>
      (request, response) =>
        void app.handle(request, response, door);
    const { environment, logger, tls } = options;
    await using opened = new AsyncDisposableStack();
    opened.defer(() => streams.close());
    opened.defer(() => proposals.close());
    opened.defer(() => trailChecks.close());
    const limits = consoleLimits();
    const door = linkDoor({ environment, sessions, know: (socket) => limits.know(socket) });
    const plain = await openPlain(through(door), { listen: this.#listen, limits, logger });
    opened.defer(() => plain.close());
    if (tls !== undefined) {
      // Strangers of the network take no place from those who use the socket.
      const limits = consoleLimits();
      const door = certificateDoor({
        environment,
        sessions,
        ...tls,
        tls: tls.certificates,
        know: (socket) => limits.know(socket),
      });
      const overTls = await openOverTls(through(door), { ...tls, limits, logger });
      opened.defer(() => overTls.close());
    }
    const all = opened.move();
    return { close: () => all.disposeAsync() };
  }
}
