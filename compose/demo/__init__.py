"""An order service that hands its slow work to the background, and proves the outcome."""
