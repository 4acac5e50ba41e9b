//! Addresses, stanzas, errors, SASL and stream negotiation as sans-IO state machines.
