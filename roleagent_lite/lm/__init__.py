"""The door to models: addresses, transports, one retry policy, one limiter, one ledger, one recorder."""
