"""What tests of several roles share: fixture plugins for the services, and a proxy that fails."""
