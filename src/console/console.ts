/** The console: the parts that the daemon opens if the configuration has a table `[console]`. */
import type { RequestListener } from 'node:http';
import type { TrailCheckOptions } from '../prove/trail/trailCheck.ts';
import type { HostPort, ListenAddress } from '../web/address.ts';
import type { TlsCertificates } from '../web/tls.ts';
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
    /** Verifies receipts of this log, like any holder of its trust file. */
    verifier(): TrailCheckOptions['verify'];
    proposalMsMax?: number;
    /** Interval at which open pages are notified of news, in milliseconds. */
    beatMs?: number;
    /** Present if the console is also served over TLS, with client certificates. */
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

  /** Serves the console at its address. Throws OperatorError if the address is in use, or if other users could replace the socket. */
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
      // Separate limits, so that unauthenticated network clients cannot use up the places of the socket.
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
