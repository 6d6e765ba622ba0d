import type { AdminStatus } from '../../../admin/statusSchema.ts';
import { OperatorError } from '../../../base/errors.ts';
import type { Config } from '../../../config/config.ts';
import { lockHolder } from '../../../store/lock.ts';
import { askAdministration, NobodyAnswers } from '../adminClient.ts';

/**
 * The status of the daemon of this configuration. Throws OperatorError that tells apart, with what to do: there is none, it is
 * still being started, it does not answer, or whoever asks may not.
 */
export async function readStatus({ admin, lockFile, environment }: Config): Promise<AdminStatus> {
  try {
    return await askAdministration<AdminStatus>(admin.socket, 'GET', '/status');
  } catch (error) {
    if (!(error instanceof NobodyAnswers)) throw error;
    const unit = `pdfseald@${environment}`;
    const holder = lockHolder(lockFile);
    if (holder === undefined) {
      const remedy = `start it: systemctl start ${unit}; why it ended says journalctl --namespace=+pdfseald -u ${unit}`;
      throw new OperatorError(error.message, { cause: error, code: 'no_daemon', remedy });
    }
    const message = `pdfseald is being started, or stopped: process ${holder} has the state folder, and does not answer yet`;
    const remedy = `wait: it answers once its tokens are open; how far it is says journalctl --namespace=+pdfseald -u ${unit}`;
    throw new OperatorError(message, { cause: error, code: 'daemon_starting', remedy });
  }
}
