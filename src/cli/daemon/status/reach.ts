import type { AdminStatus } from '../../../admin/statusSchema.ts';
import { OperatorError } from '../../../base/errors.ts';
import type { Config } from '../../../config/config.ts';
import { lockHolder } from '../../../store/lock.ts';
import { askAdministration, NobodyAnswers } from '../adminClient.ts';

/**
 * The status of the daemon of this configuration. Throws OperatorError, with a remedy, that distinguishes: no daemon runs, it is still
 * starting, it does not answer, or the user has no access.
 */
export async function readStatus({ admin, lockFile, environment }: Config): Promise<AdminStatus> {
  try {
    return await askAdministration<AdminStatus>(admin.socket, 'GET', '/status');
  } catch (error) {
    if (!(error instanceof NobodyAnswers)) throw error;
    const unit = `pdfseald@${environment}`;
    const holder = lockHolder(lockFile);
    if (holder === undefined) {
      const remedy = `start it: systemctl start ${unit}; to see why it ended: journalctl --namespace=+pdfseald -u ${unit}`;
      throw new OperatorError(error.message, { cause: error, code: 'no_daemon', remedy });
    }
    const message = `pdfseald is starting or stopping: process ${holder} uses the state folder, but does not answer yet`;
    const remedy = `wait: pdfseald answers when its tokens are open; to see its progress: journalctl --namespace=+pdfseald -u ${unit}`;
    throw new OperatorError(message, { cause: error, code: 'daemon_starting', remedy });
  }
}
