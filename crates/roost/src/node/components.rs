//! Components as the node and its network know them: each has the number of its listener, and those
//! that come in at the same place share one.

use server::options::{Component, Components, Secret};

use crate::config::{ComponentPlace, ComponentSettings, Config};

/// Where components come in, each place once.
fn places(config: &Config) -> Vec<&ComponentPlace> {
    let mut places: Vec<&ComponentPlace> = Vec::new();
    for component in &config.components {
        if !places.contains(&&component.place) {
            places.push(&component.place);
        }
    }
    places
}

/// What the server is told of them.
pub(super) fn options(config: &Config) -> Components {
    let places = places(config);
    let one = |component: &ComponentSettings| {
        let port = places.iter().position(|place| **place == component.place);
        Component {
            domain: component.domain.clone(),
            secret: Secret::new(component.secret.reveal().to_owned()),
            port: port.unwrap_or_default() as u16,
        }
    };
    Components {
        served: config.components.iter().map(one).collect(),
        ..Components::default()
    }
}

/// Their listeners.
pub(super) fn listeners(config: &Config) -> Vec<net::Listener> {
    let places = places(config).into_iter().enumerate();
    let listeners = places.map(|(port, place)| net::Listener {
        speaks: net::Speaks::Component(port as u16),
        ..match place {
            ComponentPlace::Address(address) => net::Listener::new(*address),
            ComponentPlace::Socket(path) => net::Listener::at_path(path.clone()),
        }
    });
    listeners.collect()
}
