/** Names of clients, organizations and regions: they appear in URLs, file names and receipts. */
export const NAME_PATTERN = /^[a-z0-9][a-z0-9-]{0,62}$/;
