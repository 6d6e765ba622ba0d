/** Texts of the page of console sessions. */

export const englishSessions = {
  title: 'Sessions',
  columns: { name: 'Person', role: 'Role', began: 'Since', used: 'Last used', action: 'Action' },
  yours: 'this session',
  end: 'End',
  ended: (name: string) => `A session of ${name} has ended.`,
  gone: 'This session has already ended',
  goneHow: 'Nothing was changed. Look at the list of the sessions again.',
  how: 'To end every session and every unused link of a person, run this on the machine of the service as root:',
  command: 'pdfseal console logout --as NAME',
  certificateNote:
    'A person with a certificate can sign in again until the configuration no longer names the certificate.',
};
