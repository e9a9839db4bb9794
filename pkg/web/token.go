package web

// Audience is that of tokens that are made for the relay. Tokens for the API server count, too.
const Audience = "ovn-offload-relay"

// TokenHeader has the caller's token where the API server forwards a request: it takes Authorization off.
const TokenHeader = "Ovn-Offload-Token"
