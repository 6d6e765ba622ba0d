/** What the console says to those who open it with a certificate. */

export const englishCertificates = {
  lead: (environment: string) => `Your certificate opens the console of ${environment}.`,
  needed: 'The console asks for your certificate',
  neededLead: 'Your browser showed none. This address is for people with a certificate of your site.',
  neededHow:
    'Import your certificate into the browser, close the browser, and open this address again. Choose the certificate when the browser asks.',
  refused: 'Your certificate does not open the console',
  faulty: (fault: string) => `The certificate ${fault}.`,
  unknown: 'It is valid, but it stands for nobody here. Its names are:',
  noNames: 'It has no name that counts.',
  refusedHow:
    'Show this page to an administrator of the machine: [[console.tls.people]] in the configuration says whose certificates open the console.',
  faultyHow: 'Ask your site for a certificate that is valid, and open this address again with that one.',
  tooMany: 'You have signed in too often',
  tooManyLead: 'Ten sign-ins in ten minutes are allowed.',
  tooManyHow: 'Go on in a session that is open, or wait ten minutes.',
  againHow: 'To come back, open the first page of the console.',
  wrongHostHow:
    'Open it under a name of its own certificate. A name that only a wildcard covers does not count: others may have such a name too.',
};
