/** The console: the parts that the daemon opens if the configuration has a table `[console]`. */
import type { TrailCheckOptions } from '../prove/trail/trailCheck.ts';
import { formatAddress, type HostPort, type ListenAddress } from '../web/address.ts';
import { takingAnyBody } from '../web/admission.ts';
import { ConnectionLimits } from '../web/connectionLimits.ts';
import { openServer } from '../web/server.ts';
import type { TlsCertificates } from '../web/tls.ts';
import { readAssets } from './assets.ts';
import { ConsoleApp, type ConsoleAppOptions } from './consoleApp.ts';
import { type CertificateDoorOptions, certificateDoor, type Door, linkDoor } from './doors.ts';
import { Streams } from './liveStreams.ts';
import { History } from './loadHistory.ts';
import { Proposals } from './proposals.ts';
import { screensOf } from './screens.ts';
import { Sessions } from './sessions.ts';
import type { Sources } from './sources.ts';
import { TrailChecks } from './trailChecks.ts';

const SERVER = {
  headMsMax: 5_000,
  requestMsMax: 30_000,
  /** Longer than the interval between events of a stream: a client that reads nothing for so long is gone. */
  silenceMsMax: 60_000,
};

/** A new connection replaces the oldest that has not shown a session. */
const CONNECTIONS = {
  /** Four for each of fifty open consoles, and some more. */
  max: 256,
  perAddressMax: 64,
  // Until a session is shown, the console waits only for the rest of a form.
  sparesRequests: false,
};

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
    const { environment, logger, tls } = options;
    await using opened = new AsyncDisposableStack();
    opened.defer(() => streams.close());
    opened.defer(() => proposals.close());
    opened.defer(() => trailChecks.close());
    const open = async (
      at: { at: ListenAddress; key: string; tls?: TlsCertificates },
      doorFor: (know: Door['know']) => Door,
    ) => {
      // Separate limits, so that unauthenticated network clients cannot use up the places of the socket.
      const limits = new ConnectionLimits(CONNECTIONS);
      const door = doorFor((socket) => limits.know(socket));
      const handle = takingAnyBody((request, response) => void app.handle(request, response, door));
      const server = await openServer({ ...at, ...SERVER, handle, limits, logger });
      opened.defer(() => server.close());
      logger.info({ address: formatAddress(at.at) }, 'the console is open');
    };
    await open({ at: this.#listen, key: 'console.listen' }, (know) =>
      linkDoor({ environment, sessions, know }),
    );
    if (tls !== undefined) {
      const { listen, certificates, ...people } = tls;
      await open({ at: listen, key: 'console.tls.listen', tls: certificates }, (know) =>
        certificateDoor({ ...people, environment, sessions, tls: certificates, know }),
      );
    }
    const all = opened.move();
    return { close: () => all.disposeAsync() };
  }
}
