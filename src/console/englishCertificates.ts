/** Texts for people who sign in with a certificate. */

export const englishCertificates = {
  lead: (environment: string) => `Your certificate opens the console of ${environment}.`,
  needed: 'The console asks for your certificate',
  neededLead: 'Your browser showed none. This address is for people with a certificate of your site.',
  neededHow:
    'Import your certificate into the browser, close the browser, and open this address again. Choose the certificate when the browser asks.',
  refused: 'Your certificate does not open the console',
  faulty: (fault: string) => `The certificate ${fault}.`,
  unknown: 'It is valid, but the configuration does not name it. Its names are:',
  noNames: 'It has no name that counts.',
  refusedHow:
    'Show this page to an administrator of the machine: [[console.tls.people]] in the configuration says whose certificates open the console.',
  faultyHow: 'Ask your site for a valid certificate, and open this address again with it.',
  tooMany: 'You have signed in too often',
  tooManyLead: 'Ten sign-ins in ten minutes are allowed.',
  tooManyHow: 'Continue in an open session, or wait ten minutes.',
  againHow: 'To come back, open the first page of the console.',
  wrongHostHow:
    'Open the console under a name of its own certificate. A name that only a wildcard covers does not count, because other machines can have such a name too.',
};
