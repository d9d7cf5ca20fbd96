"""Every fact about vendors, launchers, MPIs, backends and names: tables with their sources. Decides nothing."""
