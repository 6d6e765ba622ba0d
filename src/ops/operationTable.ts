import { issueApiKey, listApiKeys, revokeApiKey, rotateApiKey } from './apiKeyOperations.ts';
import { endConsoleSessions, linkConsole } from './consoleOperations.ts';
import {
  acceptClock,
  listQuotas,
  putPartitionIn,
  readStatusOperation,
  sealCanary,
  stampRenewal,
  takePartitionOut,
} from './daemonOperations.ts';
import {
  addWebhook,
  changeWebhook,
  disableWebhook,
  enableWebhook,
  removeWebhook,
  rotateWebhook,
} from './endpointOperations.ts';
import type { AdminOperation } from './operation.ts';
import type { DaemonParts, StoreParts } from './operationParts.ts';
import { listDeliveries, listWebhooks, replayWebhook, showWebhook, testWebhook } from './webhookMessages.ts';
import { acceptCosignature, requestCosignature } from './witnessOperations.ts';

/** Every operation, in the order of the description of the administration. */
export const ADMIN_OPERATIONS: readonly AdminOperation<DaemonParts & StoreParts>[] = [
  readStatusOperation,
  listQuotas,
  sealCanary,
  takePartitionOut,
  putPartitionIn,
  requestCosignature,
  acceptCosignature,
  acceptClock,
  stampRenewal,
  linkConsole,
  endConsoleSessions,
  issueApiKey,
  listApiKeys,
  rotateApiKey,
  revokeApiKey,
  addWebhook,
  listWebhooks,
  showWebhook,
  changeWebhook,
  rotateWebhook,
  disableWebhook,
  enableWebhook,
  testWebhook,
  listDeliveries,
  replayWebhook,
  removeWebhook,
];
