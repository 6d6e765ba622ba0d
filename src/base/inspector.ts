/**
 * On SIGUSR1 Node opens its inspector on a port of loopback, where any user of the machine reads what is in the memory of this
 * process and has it run anything. The package starts every program with `--disable-sigusr1`; this is for whoever runs one
 * without. Imported first, for what it does.
 */
process.on('SIGUSR1', () => {});
